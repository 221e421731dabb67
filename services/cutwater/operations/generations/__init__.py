"""Claim, start and prune generations."""
