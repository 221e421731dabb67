"""How a reader turns the changelog into a state; snapshots."""
