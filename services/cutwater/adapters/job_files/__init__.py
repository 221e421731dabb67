"""YAML and schema files of jobs."""
