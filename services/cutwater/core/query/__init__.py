"""Pure parts of serving: peers, global merge, top-N, change buffer."""
