"""The demonstration: a year of real flights, checked row by row against DuckDB."""

DAYS_MAX = 365
"""The number of days with data. It is here because the CLI runs without pandas and DuckDB."""
