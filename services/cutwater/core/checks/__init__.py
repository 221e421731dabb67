"""Doctor, plan, verify: findings from plain values."""
