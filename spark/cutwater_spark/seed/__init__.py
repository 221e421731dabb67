"""The state that a generation starts with."""
