"""Serving logic without I/O: peers, global merge, top-N, change buffer."""
