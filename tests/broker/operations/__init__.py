"""Tests of operations on a real broker."""
