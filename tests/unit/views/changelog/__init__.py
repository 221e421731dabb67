"""Tests of views/changelog that need neither broker nor Spark."""
