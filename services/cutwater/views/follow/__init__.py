"""Keeping a view at the newest milestone."""
