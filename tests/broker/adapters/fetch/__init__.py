"""Tests of adapters/fetch on a real broker."""
