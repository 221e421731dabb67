"""Tests of core/job that need neither broker nor Spark."""
