"""Histories of the simulation as pages show them."""
