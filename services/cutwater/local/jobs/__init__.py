"""Several jobs in one stack: one broker, and for each job its own processes and its own folder."""
