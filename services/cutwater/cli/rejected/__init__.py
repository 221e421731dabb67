"""The verbs of dead letters and late events."""
