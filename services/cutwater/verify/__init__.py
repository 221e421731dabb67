"""`cutwater verify`: reads and compares the places that hold a milestone's state."""
