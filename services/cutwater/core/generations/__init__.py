"""The life of a generation: claim, start state, catch-up, removal."""
