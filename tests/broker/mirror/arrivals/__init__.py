"""Tests of mirror/arrivals on a real broker."""
