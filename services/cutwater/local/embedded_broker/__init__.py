"""The broker that Cutwater starts itself."""
