"""Tests of cli/state on a real broker."""
