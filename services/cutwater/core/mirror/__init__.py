"""Progress of copies, and arrivals."""
