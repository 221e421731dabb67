"""Failover, forks, exact loss, the return of a region."""
