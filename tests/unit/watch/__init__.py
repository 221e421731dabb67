"""Tests of watch that need neither broker nor Spark."""
