"""Point reads of a view that follows its job: the load, the tail, the layers."""
