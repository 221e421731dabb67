"""Known work for a driver and a rehydrator on this machine, and what they take for it."""
