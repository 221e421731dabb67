"""Tests of adapters/topics that need neither broker nor Spark."""
