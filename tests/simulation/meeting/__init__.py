"""Two that act at once, and what they are told."""
