"""What is announced and measured of copies."""
