"""Tests of adapters/avro that need neither broker nor Spark."""
