"""Tests of verify on a real broker."""
