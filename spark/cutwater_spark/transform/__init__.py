"""`source.transform`: a user's function from DataFrame to DataFrame, as columns of each record."""
