"""Tests of views/changelog on a real broker."""
