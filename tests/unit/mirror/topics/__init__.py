"""Tests of mirror/topics that need neither broker nor Spark."""
