"""Tests of local on a real broker."""
