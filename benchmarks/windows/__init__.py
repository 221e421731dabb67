"""B2 and B6: windows drained from a backlog."""
