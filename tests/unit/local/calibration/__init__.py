"""Tests of local/calibration that need neither broker nor Spark."""
