"""Tests that need neither a broker nor Spark: the tree is that of the code."""
