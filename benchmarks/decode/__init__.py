"""B5: events of each format decoded."""
