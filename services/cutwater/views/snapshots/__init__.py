"""Taking, keeping and restoring snapshots."""
