"""Kinds of measures that need more than one aggregate, or parameters."""
