"""Which generation is served, and the switch to the next one."""
