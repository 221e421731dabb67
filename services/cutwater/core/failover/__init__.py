"""Failover, forks, exact loss, and the return of a region."""
