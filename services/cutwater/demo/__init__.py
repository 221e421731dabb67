"""The demonstration: a year of real flights, checked row by row against DuckDB."""

DAYS_MAX = 365
"""What can be replayed. Here, since the command line is there without pandas and DuckDB."""
