"""Tests of core/query that need neither broker nor Spark."""
