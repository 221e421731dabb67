"""Tests of client that need neither broker nor Spark."""
