"""The sources of the output's rows."""
