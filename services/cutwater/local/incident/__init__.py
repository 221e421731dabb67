"""One file about an incident: its parts, read where they are, without secrets."""
