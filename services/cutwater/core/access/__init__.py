"""Who may do what to a job, and the record of what was done."""
