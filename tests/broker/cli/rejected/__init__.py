"""Tests of cli/rejected on a real broker."""
