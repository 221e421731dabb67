"""Faults that are made on purpose, and what a job does about them."""
