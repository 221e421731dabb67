"""Verbs that read a job's state."""
