"""The switch of the output to another generation."""
