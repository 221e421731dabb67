"""A first job file, proposed from a topic's events."""
