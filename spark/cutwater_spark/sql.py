"""Values as literals of Spark SQL."""

from __future__ import annotations


def text(value: str) -> str:
    """A string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def binary(value: bytes) -> str:
    return f"X'{value.hex()}'"


def name(value: str) -> str:
    """A column's or field's name."""
    return f"`{value.replace('`', '``')}`"
