"""The pure core: the protocol and its words. Standard library only; no I/O, no clock, no logging."""
