"""Tests of adapters/kafka that need neither broker nor Spark."""
