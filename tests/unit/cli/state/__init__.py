"""Tests of cli/state that need neither broker nor Spark."""
