"""Tests of the console that need neither broker nor Spark."""
