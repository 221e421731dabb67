"""Settings, and values derived from them."""
