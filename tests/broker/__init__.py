"""Tests on a real broker: the tree is that of the code."""
