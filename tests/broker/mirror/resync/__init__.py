"""Tests of mirror/resync on a real broker."""
