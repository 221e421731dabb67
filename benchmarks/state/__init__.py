"""B7: batches of events beside an open state of different sizes."""
