"""A job that is changed while it works: more partitions, other measures, back, and counted once more."""
