"""Tests of core that need neither broker nor Spark."""
