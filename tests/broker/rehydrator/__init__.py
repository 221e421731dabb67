"""Tests of rehydrator on a real broker."""
