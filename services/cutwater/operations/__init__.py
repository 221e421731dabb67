"""Use cases that several services and the command line share."""
