"""Names, records and the commit state machine."""
