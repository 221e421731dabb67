"""Tests of operations/regions on a real broker."""
