"""The verbs of generations."""
