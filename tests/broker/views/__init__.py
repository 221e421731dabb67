"""Tests of views on a real broker."""
