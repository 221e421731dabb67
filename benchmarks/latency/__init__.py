"""Latency: events at a steady rate, followed until others can read what they became. B3, and half of B6."""
