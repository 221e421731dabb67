"""Bulk fetch over aiokafka's internals."""
