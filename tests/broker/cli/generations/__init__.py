"""Tests of cli/generations on a real broker."""
