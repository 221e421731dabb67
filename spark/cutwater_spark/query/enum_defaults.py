"""Enums of Avro events that were read with the symbols of all writers: their defaults put in place, and seen."""

from __future__ import annotations

from collections.abc import Mapping

from cutwater.core.events.enum_symbols import Unknown
from cutwater_spark.query.sql import name, text


def taken(event: str, fields: Mapping[str, Unknown]) -> str:
    """Has any of these fields a symbol that the job's schema does not know? `event` is a struct, all is SQL."""
    found = [f"coalesce({_unknown(event, field, one)}, false)" for field, one in fields.items()]
    return " or ".join(found) or "false"


def put(event: str, fields: Mapping[str, Unknown]) -> dict[str, str]:
    """By field what it holds then."""
    return {
        field: f"if({_unknown(event, field, one)}, {text(one.default)}, {event}.{name(field)})"
        for field, one in fields.items()
    }


def _unknown(event: str, field: str, one: Unknown) -> str:
    return f"{event}.{name(field)} in ({', '.join(map(text, one.symbols))})"
