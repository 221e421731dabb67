"""Tests of mirror that need neither broker nor Spark."""
