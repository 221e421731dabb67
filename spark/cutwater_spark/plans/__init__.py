"""Spark's plans of what users write: the rules for expressions and functions, and how a function is replayed."""
