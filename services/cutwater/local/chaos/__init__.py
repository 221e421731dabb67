"""Faults made on a running stack, the looks at it, and the replay that its rows are compared with."""
