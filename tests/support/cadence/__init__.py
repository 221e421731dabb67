"""Simulated drivers and views under the cadence controller."""
