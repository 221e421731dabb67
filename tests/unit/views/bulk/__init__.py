"""Tests of views/bulk that need neither broker nor Spark."""
