"""Answers of a view to its readers."""
