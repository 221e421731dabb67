"""The demonstration: a year of real flights, checked row by row against DuckDB."""
