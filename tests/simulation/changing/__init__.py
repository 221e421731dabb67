"""Generations that compute other things than their parents."""
