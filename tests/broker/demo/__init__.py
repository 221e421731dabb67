"""Tests of demo on a real broker."""
