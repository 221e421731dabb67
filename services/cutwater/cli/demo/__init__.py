"""The verbs of the demonstrations."""
