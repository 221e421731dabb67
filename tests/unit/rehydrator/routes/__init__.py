"""Tests of rehydrator/routes that need neither broker nor Spark."""
