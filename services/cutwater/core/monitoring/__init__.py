"""Job status and alert rules."""
