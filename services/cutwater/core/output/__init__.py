"""The published output: position, assembly, hand-over."""
