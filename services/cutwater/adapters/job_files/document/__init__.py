"""A job file as a YAML document: its values with their lines, and what is wrong with it."""
