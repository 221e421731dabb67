"""Tests of adapters on a real broker."""
