"""Tests of core/output that need neither broker nor Spark."""
