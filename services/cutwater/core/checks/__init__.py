"""Checks of `doctor`, `plan` and `verify`: findings from plain values."""
