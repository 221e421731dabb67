"""`cutwater skew`: load by shard and key, what to do about it, and the plan that spreads hot keys."""
