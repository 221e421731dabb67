"""Tests of core/state that need neither broker nor Spark."""
