"""Tests of rehydrator/generation on a real broker."""
