"""Tests of local that need neither broker nor Spark."""
