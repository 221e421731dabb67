"""A changelog that is published, and who publishes it."""
