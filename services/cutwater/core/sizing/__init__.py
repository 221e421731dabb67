"""From a job and its load to partitions, processes, disks and traffic, on machines with known figures."""
