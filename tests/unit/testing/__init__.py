"""Tests of testing that need neither broker nor Spark."""
