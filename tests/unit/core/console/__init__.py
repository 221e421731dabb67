"""Tests of core/console that need neither broker nor Spark."""
