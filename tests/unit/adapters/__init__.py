"""Tests of adapters that need neither broker nor Spark."""
