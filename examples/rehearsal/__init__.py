"""A rehearsal: load, faults and a second region on this machine, with a checker (`make rehearse`)."""

HERE, THERE = "local", "eu"
