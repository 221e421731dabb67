"""Verbs about a job before and while it runs: file, topics, events, settings."""
