"""What spreading hot keys gives."""
