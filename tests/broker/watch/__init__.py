"""Tests of watch on a real broker."""
