"""Typed reads of the job's own topics."""
