"""Tests of support that need neither broker nor Spark."""
