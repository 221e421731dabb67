"""The verbs of regions: mirror, failover, forks."""
