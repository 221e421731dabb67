"""The materialised state that rehydrator and publisher share."""
