"""A view at one milestone, read from rehydrators."""
