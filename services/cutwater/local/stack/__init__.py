"""A job's stack: its processes, its file, and its life."""
