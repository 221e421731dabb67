"""Tests of publisher on a real broker."""
