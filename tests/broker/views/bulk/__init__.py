"""Tests of views/bulk on a real broker."""
