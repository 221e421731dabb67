"""Tests of rehydrator/cluster on a real broker."""
