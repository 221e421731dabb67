"""Child processes: start, supervision, restarts, exits."""
