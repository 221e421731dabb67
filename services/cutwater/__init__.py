"""Cutwater: consistent cuts of streaming state."""
