"""Tests of core/protocol that need neither broker nor Spark."""
