"""The command line: one file per verb group, each thin."""
