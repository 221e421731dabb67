"""What the stack needs from this machine: ports, disk, caches."""
