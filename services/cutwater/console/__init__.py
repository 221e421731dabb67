"""The console: pages about the jobs of a running stack, read-only."""
