"""`cutwater verify`: the places that hold a milestone's state, read and compared."""
