"""Tests of cli/stack that need neither broker nor Spark."""
