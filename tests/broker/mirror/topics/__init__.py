"""Tests of mirror/topics on a real broker."""
