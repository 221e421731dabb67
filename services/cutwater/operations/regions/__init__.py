"""Failover, forks and return of a region."""
