"""Events in JSON: the allowed token of each field of the schema, and how Cutwater writes it.

A field that is missing or null takes its default; without one it is null if the schema allows null. Any other
mismatch makes the whole event undecodable. Fields that the schema does not name are ignored.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import date_text

DIRECT = frozenset({"boolean", "int", "long", "float", "double"})
TIMES = frozenset({"timestamp-millis", "timestamp-micros"})
LAST, REJECT = "last", "reject"
REPEATED_NAMES = (LAST, REJECT)
"""The rules for an object that repeats a name: the last value counts, or the event is rejected."""
_NUMBER = "a number that the type holds, or the text NaN, Infinity or -Infinity"
_TIME = "a whole number or its text, or ISO 8601 with seconds"
RULES = {
    "boolean": "true or false",
    "int": "a number without point and exponent, within 32 bits",
    "long": "a number without point and exponent, within 64 bits",
    "float": _NUMBER,
    "double": _NUMBER,
    "string": "a text",
    "enum": "a text that is one of the symbols",
    "bytes": "a text in base64",
    "fixed": "a text in base64, of the right length",
    "decimal": "a number without exponent, or its text, that the type holds without rounding",
    "date": "a text such as 2013-01-31, of the years 1 to 9999",
    "timestamp-millis": f"{_TIME}, in milliseconds since 1970",
    "timestamp-micros": f"{_TIME}, in microseconds since 1970",
}
EMPTY = "the record is empty"
NOT_UTF8 = "the record is not UTF-8"
NO_OBJECT = "the record is no JSON object"
SOMETHING_BEHIND = "text follows the JSON object"
HALF_PAIR = "an escape is half of a surrogate pair"
MISSING = "is missing or null, and has no default"
_KINDS = DIRECT | {"string", "bytes"}
_OTHER_TYPE = frozenset({"time-millis", "time-micros", "duration", "local-timestamp-millis"})
_OTHERS = _OTHER_TYPE | {"local-timestamp-micros"}


@dataclass(frozen=True)
class JsonField:
    name: str
    kind: str
    """An Avro primitive except null, or enum, fixed, decimal, date, timestamp-millis, timestamp-micros."""
    nullable: bool
    has_default: bool = False
    default: Any = None
    """As the schema has it."""
    symbols: tuple[str, ...] = ()
    size: int = 0
    precision: int = 0
    scale: int = 0


def json_fields(schema: Mapping[str, Any]) -> tuple[JsonField, ...]:
    """Return the fields of an event. Raises UsageError for a type that JSON events do not support."""
    named: dict[str, Mapping[str, Any]] = {}
    return tuple(_field(one, named, schema.get("namespace", "")) for one in schema["fields"])


def _field(declared: Mapping[str, Any], named: dict[str, Mapping[str, Any]], namespace: str) -> JsonField:
    # A type that one field defines may be used by name in later ones.
    avro, name = declared["type"], declared["name"]
    branches = avro if isinstance(avro, list) else [avro]
    others = [one for one in branches if one != "null"]
    if len(others) != 1:
        raise UsageError(f"source.schema: field '{name}' is a union, whose types JSON events do not distinguish")
    plain = others[0]
    inner: Mapping[str, Any] = plain if isinstance(plain, Mapping) else named.get(plain, {"type": plain})
    if isinstance(plain, Mapping) and "name" in plain:
        named |= {plain["name"]: plain, f"{plain.get('namespace', namespace)}.{plain['name']}": plain}
    return JsonField(
        name=name,
        kind=_kind(name, inner),
        nullable="null" in branches,
        has_default="default" in declared,
        default=declared.get("default"),
        symbols=tuple(inner.get("symbols", ())),
        size=inner.get("size", 0),
        precision=inner.get("precision", 0),
        scale=inner.get("scale", 0),
    )


def _kind(name: str, inner: Mapping[str, Any]) -> str:
    kind, logical = inner["type"], inner.get("logicalType")
    if logical in TIMES or logical == "date" or (logical == "decimal" and inner.get("precision")):
        return str(logical)
    if logical not in _OTHERS and isinstance(kind, str) and kind in _KINDS | {"enum", "fixed"}:
        return kind
    raise UsageError(
        f"source.schema: field '{name}' is {logical or kind}, which events in JSON cannot have: remove it from "
        "the schema (fields that the schema does not name are ignored), or write the events in Avro"
    )


def encode(record: Mapping[str, Any], fields: tuple[JsonField, ...]) -> bytes:
    """Return a record that fits the schema as JSON in UTF-8. Missing fields stay missing."""
    plain = {
        one.name: None if record[one.name] is None else _PLAIN.get(one.kind, _same)(record[one.name])
        for one in fields
        if one.name in record
    }
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _same(value: Any) -> Any:
    return value


def _time(value: Any) -> Any:
    """Return ISO 8601 in UTC with microseconds. A number is in the schema's unit and stays a number."""
    if not isinstance(value, datetime):
        return value
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def float_plain(value: float) -> float | str:
    """Return a finite number, or the text NaN, Infinity or -Infinity, which JSON has no number for."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decimal(value: Any) -> str:
    return format(value if isinstance(value, Decimal) else Decimal(str(value)), "f")


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "bytes": _bytes,
    "fixed": _bytes,
    "decimal": _decimal,
    "float": float_plain,
    "double": float_plain,
    "date": date_text,
    "timestamp-millis": _time,
    "timestamp-micros": _time,
}
