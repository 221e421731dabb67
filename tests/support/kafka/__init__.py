"""Brokers, clusters and links for tests."""
