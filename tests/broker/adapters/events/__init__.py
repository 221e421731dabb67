"""Tests of adapters/events on a real broker."""
