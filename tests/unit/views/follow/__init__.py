"""Tests of views/follow that need neither broker nor Spark."""
