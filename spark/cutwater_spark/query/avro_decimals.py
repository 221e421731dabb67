"""Detection of decimals of Avro events that exceed their type, which Spark would read as another value.

Spark takes the last eight bytes of a decimal of up to 18 digits and ignores the others. So these fields are read
with one digit more, as numbers of any size, and then cast to their type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutwater.adapters.job_files.event_schema import field_types
from cutwater.core.events.rejection import UNDECODABLE
from cutwater.core.job.measures import FieldType
from cutwater_spark.query.rejection_reasons import Flaw, flaw
from cutwater_spark.query.sql import name

_LONG_DIGITS = 18
"""The most digits that Spark stores in a long."""
_LONG_BYTES = 8


def wide(schema: Mapping[str, Any]) -> dict[str, FieldType]:
    """Return the fields whose bytes may exceed a long, with their types, by name."""
    types = field_types(schema)
    return {
        one["name"]: types[one["name"]]
        for one in schema["fields"]
        if types[one["name"]].name == "decimal" and types[one["name"]].precision <= _LONG_DIGITS
        if _decimal(one["type"]).get("size", _LONG_BYTES + 1) > _LONG_BYTES
    }


def widened(schema: dict[str, Any], fields: Mapping[str, FieldType]) -> dict[str, Any]:
    """Return the schema with one digit more than a long's in these fields."""
    made = [{**one, "type": _more(one["type"])} if one["name"] in fields else one for one in schema["fields"]]
    return {**schema, "fields": made}


def flaws(event: str, fields: Mapping[str, FieldType]) -> list[Flaw]:
    """Return the flaws of values beyond their type. `event`: the struct that was read, as SQL."""
    return [
        flaw(
            f"{event}.{name(field)} is not null and try_cast({event}.{name(field)} as {kind}) is null",
            UNDECODABLE,
            f"is beyond {kind}",
            field,
        )
        for field, kind in fields.items()
    ]


def narrowed(event: str, fields: Mapping[str, FieldType]) -> dict[str, str]:
    """Return each field's value in its type, as SQL, by field."""
    return {field: f"try_cast({event}.{name(field)} as {kind})" for field, kind in fields.items()}


def _decimal(avro: Any) -> Mapping[str, Any]:
    branches = avro if isinstance(avro, list) else [avro]
    return next(one for one in branches if one != "null")


def _more(avro: Any) -> Any:
    if isinstance(avro, list):
        return [one if one == "null" else _more(one) for one in avro]
    return {**avro, "precision": _LONG_DIGITS + 1}
