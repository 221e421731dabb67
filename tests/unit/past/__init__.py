"""Tests of cutwater/past that need neither broker nor Spark."""
