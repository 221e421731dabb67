"""Tests of adapters/kafka on a real broker."""
