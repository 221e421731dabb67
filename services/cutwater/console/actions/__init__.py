"""What the console's pages may change: with a role, a typed name and an audit record."""
