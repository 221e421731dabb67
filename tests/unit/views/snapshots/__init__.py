"""Tests of views/snapshots that need neither broker nor Spark."""
