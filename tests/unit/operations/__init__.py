"""Tests of operations that need neither broker nor Spark."""
