"""Tests of adapters/http that need neither broker nor Spark."""
