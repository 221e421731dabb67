"""The generation that is served, and the switch to the next one."""
