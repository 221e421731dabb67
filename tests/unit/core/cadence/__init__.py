"""Tests of core/cadence, which need neither broker nor Spark."""
