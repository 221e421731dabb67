"""Tests of demo that need neither broker nor Spark."""
