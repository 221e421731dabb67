"""Routes of the global view: what several regions answer, merged."""
