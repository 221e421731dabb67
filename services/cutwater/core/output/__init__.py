"""The published output: position, milestone assembly, hand-over."""
