"""Settings, and what follows from them."""
