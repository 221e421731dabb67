"""Enums of Avro events, read with the symbols of all writers: unknown symbols replaced by the default."""

from __future__ import annotations

from collections.abc import Mapping

from cutwater.core.events.enum_symbols import UnknownSymbols
from cutwater_spark.query.sql import name, text


def has_default(event: str, fields: Mapping[str, UnknownSymbols]) -> str:
    """Return, as SQL, whether a field has a symbol unknown to the job's schema. `event`: a struct, as SQL."""
    found = [f"coalesce({_unknown(event, field, one)}, false)" for field, one in fields.items()]
    return " or ".join(found) or "false"


def replaced_fields(event: str, fields: Mapping[str, UnknownSymbols]) -> dict[str, str]:
    """Return each field's value with the default for unknown symbols, as SQL, by field."""
    return {
        field: f"if({_unknown(event, field, one)}, {text(one.default)}, {event}.{name(field)})"
        for field, one in fields.items()
    }


def _unknown(event: str, field: str, one: UnknownSymbols) -> str:
    return f"{event}.{name(field)} in ({', '.join(map(text, one.symbols))})"
