"""What the stack needs of this machine: ports, disk, caches."""
