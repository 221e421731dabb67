"""Tests of rehydrator/routes on a real broker."""
