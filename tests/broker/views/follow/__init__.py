"""Tests of views/follow on a real broker."""
