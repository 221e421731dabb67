"""Two regions and their mirrors for tests."""
