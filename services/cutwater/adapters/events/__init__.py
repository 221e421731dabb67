"""Events and rows as bytes, in the job's format; schema registry."""
