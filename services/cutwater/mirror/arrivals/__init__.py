"""Announcements and measurements of copies."""
