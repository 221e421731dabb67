"""Changelogs, views and their readers for tests."""
