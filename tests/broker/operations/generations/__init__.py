"""Tests of operations/generations on a real broker."""
