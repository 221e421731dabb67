"""Tests of commit_signal on a real broker."""
