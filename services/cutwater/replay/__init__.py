"""Events between two milestones counted once more, in a sandbox, and compared with the job's own rows."""
