"""Tests of mirror on a real broker."""
