"""Tests of spark that need neither broker nor Spark."""
