"""Tests of core/util that need neither broker nor Spark."""
