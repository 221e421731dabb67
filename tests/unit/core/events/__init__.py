"""Tests of core/events that need neither broker nor Spark."""
