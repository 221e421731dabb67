"""Tests of rehydrator that need neither broker nor Spark."""
