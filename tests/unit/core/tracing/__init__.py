"""Tests of core/monitoring that need neither broker nor Spark."""
