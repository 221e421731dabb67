"""Tests of adapters/topics on a real broker."""
