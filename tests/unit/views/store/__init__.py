"""Tests of views/store that need neither broker nor Spark."""
