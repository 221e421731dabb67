"""The resync of a copy."""
