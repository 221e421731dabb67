"""Bulk load of a changelog by worker processes."""
