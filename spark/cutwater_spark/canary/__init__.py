"""A canary: a driver whose epochs end where the promoted generation has ended its own."""
