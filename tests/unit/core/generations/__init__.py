"""Tests of core/generations that need neither broker nor Spark."""
