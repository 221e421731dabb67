"""When and how fast a candidate works, and what the promoted generation leaves to it."""
