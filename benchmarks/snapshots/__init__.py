"""Snapshots while a view applies its milestones, made at once or beside, often or rarely."""

from benchmarks.snapshots.bench import COMMAND as COMMAND
