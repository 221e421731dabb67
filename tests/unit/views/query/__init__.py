"""Tests of views/query that need neither broker nor Spark."""
