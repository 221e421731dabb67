"""Tests of adapters/fetch that need neither broker nor Spark."""
