"""What the console's pages show: folds of records, and plain documents made of them."""
