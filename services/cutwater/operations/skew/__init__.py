"""What `cutwater skew` does: reads load from the changelog, and changes the spreading plan."""
