"""Tests of the console on a real broker."""
