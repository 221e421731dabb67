"""Tests of cli/job that need neither broker nor Spark."""
