"""Tests of views/snapshots on a real broker."""
