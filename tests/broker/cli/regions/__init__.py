"""Tests of cli/regions on a real broker."""
