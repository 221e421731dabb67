"""Tests of cli/job on a real broker."""
