"""Logs, terminal, garbage collection, crash points for tests."""
