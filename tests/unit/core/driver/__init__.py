"""Tests of core/driver that need neither broker nor Spark."""
