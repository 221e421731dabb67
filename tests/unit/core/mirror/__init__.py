"""Tests of core/mirror that need neither broker nor Spark."""
