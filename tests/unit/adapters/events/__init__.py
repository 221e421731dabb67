"""Tests of adapters/events that need neither broker nor Spark."""
