"""Tests of cli on a real broker."""
