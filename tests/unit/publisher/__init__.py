"""Tests of publisher that need neither broker nor Spark."""
