"""A copy that is begun again."""
