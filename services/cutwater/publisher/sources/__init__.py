"""Where the rows of the output come from."""
