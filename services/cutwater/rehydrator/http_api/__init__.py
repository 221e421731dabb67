"""Everything HTTP that is not a route."""
