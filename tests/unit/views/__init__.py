"""Tests of views that need neither broker nor Spark."""
