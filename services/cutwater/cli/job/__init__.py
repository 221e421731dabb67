"""Verbs about a job: its file, topics, events and settings."""
