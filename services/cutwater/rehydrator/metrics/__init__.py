"""Prometheus metrics of the rehydrator."""
