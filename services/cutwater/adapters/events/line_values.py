"""Values of events in JSON lines, made those that the encoders of all formats take.

JSON has neither times nor decimals nor bytes. They are written as in JSON events: a time as ISO 8601 or a number,
a decimal as a number or its text, bytes in base64.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any
from uuid import UUID

from cutwater.adapters.events.event_values import Make
from cutwater.core.events.avro_types import Schema
from cutwater.core.job.field_paths import bare, type_of
from cutwater.core.job.measures import TIMES
from cutwater.core.util.suggestions import value_text
from cutwater.core.util.timestamps import parsed

_WORDS = ("NaN", "Infinity", "-Infinity")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def line_number(text: str) -> Decimal:
    """Return a number with point or exponent, as sent. Raises ValueError for one that no type holds."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"the number {text[:40]} is beyond a double") from None


def line_values(schema: Mapping[str, Any]) -> Make:
    """Return a function from a line's object to an event. `schema`: without recursive types.

    The object's numbers are whole numbers or those of `line_number`. The function raises ValueError for a text
    that is no time or base64, and for a number beyond a double.
    """
    found = Schema.of(schema)
    return _record(found, found.type_of(found.root))


def _record(schema: Schema, type_: Mapping[str, Any]) -> Make:
    makers = {one["name"]: _maker(schema, one["type"]) for one in type_["fields"]}

    def made(value: Any) -> Any:
        if not isinstance(value, dict):
            return _other(value)
        return {name: _made(makers.get(name, _other), one) for name, one in value.items()}

    return made


def _maker(schema: Schema, node: Any) -> Make:
    inner = bare(node)
    if isinstance(inner, list):
        return _other
    type_, name = schema.type_of(inner), type_of(schema, inner).name
    kind = type_["type"]
    if kind == "record":
        return _record(schema, type_)
    if kind in ("array", "map"):
        of = _maker(schema, type_["items" if kind == "array" else "values"])
        return partial(_list if kind == "array" else _map, of)
    if name.removeprefix("local-") in TIMES:
        return _time
    return _MAKERS.get(name) or _MAKERS.get(kind, _other)


def _made(make: Make, value: Any) -> Any:
    return None if value is None else make(value)


def _list(make: Make, value: Any) -> Any:
    return [_made(make, one) for one in value] if isinstance(value, list) else _other(value)


def _map(make: Make, value: Any) -> Any:
    return {name: _made(make, one) for name, one in value.items()} if isinstance(value, dict) else _other(value)


def _time(value: Any) -> Any:
    return parsed(value) if isinstance(value, str) else _other(value)


def _decimal(value: Any) -> Any:
    is_number = type(value) is int or (isinstance(value, str) and _DECIMAL.fullmatch(value))
    return Decimal(value) if is_number else value


def _uuid(value: Any) -> Any:
    return UUID(value) if isinstance(value, str) and _UUID.fullmatch(value) else _bytes(value)


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return _other(value)
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise ValueError(f"{value_text(value)} is no base64, as which bytes are written") from None


def _floating(value: Any) -> Any:
    return float(value) if isinstance(value, str) and value in _WORDS else _other(value)


def _other(value: Any) -> Any:
    """Return a value of another type, with doubles for its numbers."""
    if isinstance(value, Decimal):
        if math.isinf(number := float(value)):
            raise ValueError(f"the number {value!s:.40} is beyond a double")
        return number
    if isinstance(value, list):
        return [_other(one) for one in value]
    return {name: _other(one) for name, one in value.items()} if isinstance(value, dict) else value


_MAKERS: dict[str, Make] = {
    "decimal": _decimal,
    "uuid": _uuid,
    **dict.fromkeys(("bytes", "fixed"), _bytes),
    **dict.fromkeys(("float", "double"), _floating),
}
"""By logical type, else by Avro's type."""
