"""Tests of client on a real broker."""
