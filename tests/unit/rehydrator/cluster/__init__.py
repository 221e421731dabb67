"""Tests of rehydrator/cluster that need neither broker nor Spark."""
