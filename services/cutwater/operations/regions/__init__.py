"""Failover, forks, return of a region."""
