"""The HTTP parts that are not routes."""
