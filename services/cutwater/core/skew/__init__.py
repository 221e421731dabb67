"""Skew: load by source partition, shard and key, what to do about it, and the plan that spreads hot keys."""
