"""Tests of cli/past on a real broker."""
