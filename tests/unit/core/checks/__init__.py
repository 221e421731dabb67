"""Tests of core/checks that need neither broker nor Spark."""
