"""Soak: disk under endless load."""
