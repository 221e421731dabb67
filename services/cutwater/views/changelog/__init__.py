"""Reading and proving rows of a changelog."""
