"""Tests of local/processes that need neither broker nor Spark."""
