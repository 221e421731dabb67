"""Tests of adapters/runtime that need neither broker nor Spark."""
