"""What readers get from a view."""
