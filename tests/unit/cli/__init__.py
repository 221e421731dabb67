"""Tests of cli that need neither broker nor Spark."""
