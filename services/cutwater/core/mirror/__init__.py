"""How far copies have come, and what has arrived."""
