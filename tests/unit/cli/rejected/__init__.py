"""Tests of cli/rejected that need neither broker nor Spark."""
