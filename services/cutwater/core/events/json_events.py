"""Events in JSON: the allowed token of each field of the schema, and how Cutwater writes it.

A field that is missing or null takes its default; without one it is null if the schema allows null. Any other
mismatch makes the whole event undecodable. Fields that the schema does not name are ignored. The same holds for
the fields of a record inside of the event, and for each element of an array and value of a map.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.key_columns import date_text
from cutwater.core.events.rejection import ELEMENTS_MAX

DIRECT = frozenset({"boolean", "int", "long", "float", "double"})
TIMES = frozenset({"timestamp-millis", "timestamp-micros"})
LAST, REJECT = "last", "reject"
NESTED = frozenset({"record", "array", "map"})
KEY_SHOWN = 60
"""Characters of a map's key in the path of an unfit value."""
LEVELS_MAX = 8
"""Records, arrays and maps inside of each other, in a schema."""
NESTED_FIELDS_MAX = 400
"""Fields, elements and values inside of a schema's fields: each of them is part of the query plan."""
ELEMENT_FIELDS_MAX = 100
"""Fields of a record in an array or map. An element of two bytes, an empty object, has all of them in memory."""
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
    "record": "an object",
    "array": f"an array of at most {ELEMENTS_MAX:,} elements",
    "map": f"an object of at most {ELEMENTS_MAX:,} names",
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
_NAME = re.compile(r"[^\W\d]\w*")
_REFUSED = (
    "which events in JSON cannot have: remove it from the schema (fields that the schema does not name are "
    "ignored), or write the events in Avro"
)


@dataclass(frozen=True)
class JsonField:
    name: str
    kind: str
    """An Avro primitive except null, enum, fixed, a logical type of RULES, or one of NESTED."""
    nullable: bool
    has_default: bool = False
    default: Any = None
    """As the schema has it."""
    symbols: tuple[str, ...] = ()
    size: int = 0
    precision: int = 0
    scale: int = 0
    fields: tuple[JsonField, ...] = ()
    """Of a record."""
    item: JsonField | None = None
    """An array's element, or a map's value."""


def json_fields(schema: Mapping[str, Any]) -> tuple[JsonField, ...]:
    """Return the fields of an event. Raises UsageError for a type that JSON events do not support."""
    found = Schema.of(schema)
    fields = _Fields(found)
    return tuple(fields.of(one, one["name"]) for one in found.named[found.root]["fields"])


class _Fields:
    """Reads a schema's fields, and counts those inside of others."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._nested = 0

    def of(self, declared: Mapping[str, Any], path: str, level: int = 0) -> JsonField:
        avro, name = declared["type"], declared["name"]
        branches = avro if isinstance(avro, list) else [avro]
        others = [one for one in branches if one != "null"]
        if len(others) != 1:
            raise UsageError(
                f"source.schema: field '{path}' is a union, whose types JSON events do not distinguish"
            )
        inner = self._schema.type_of(others[0])
        made = JsonField(
            name=name,
            kind=_kind(path, inner),
            nullable="null" in branches,
            has_default="default" in declared,
            default=declared.get("default"),
            symbols=tuple(inner.get("symbols", ())),
            size=inner.get("size", 0),
            precision=inner.get("precision", 0),
            scale=inner.get("scale", 0),
        )
        if level or made.kind in NESTED:
            self._require_bounds(made, path, level)
        return self._with_inner(made, inner, path, level) if made.kind in NESTED else made

    def _require_bounds(self, field: JsonField, path: str, level: int) -> None:
        self._nested += 1 if level else 0
        why = ""
        if field.name and not _NAME.fullmatch(field.name):
            why = f"the name of field '{path}' is none that Avro allows"
        elif level == LEVELS_MAX and field.kind in NESTED:
            why = f"field '{path}' is more than {LEVELS_MAX} levels deep"
        elif self._nested > NESTED_FIELDS_MAX:
            why = f"more than {NESTED_FIELDS_MAX:,} fields are inside of other fields"
        if why:
            raise UsageError(f"source.schema: {why}, {_REFUSED}")

    def _with_inner(self, made: JsonField, inner: Mapping[str, Any], path: str, level: int) -> JsonField:
        if made.kind != "record":
            of, step = ("items", "[]") if made.kind == "array" else ("values", "['']")
            item = self.of({"name": "", "type": inner[of]}, path + step, level + 1)
            if _most_fields(item) > ELEMENT_FIELDS_MAX:
                why = f"a record in '{path}{step}' has more than {ELEMENT_FIELDS_MAX} fields"
                raise UsageError(f"source.schema: {why}, {_REFUSED}")
            return replace(made, item=item)
        if not inner["fields"]:
            raise UsageError(f"source.schema: field '{path}' is a record without fields, {_REFUSED}")
        fields = (self.of(one, f"{path}.{one['name']}", level + 1) for one in inner["fields"])
        return replace(made, fields=tuple(fields))


def _most_fields(field: JsonField) -> int:
    """Return the number of fields of the widest record that a field is or holds."""
    inner = field.fields if field.item is None else (field.item,)
    return max([len(field.fields), *map(_most_fields, inner)])


def _kind(path: str, inner: Mapping[str, Any]) -> str:
    kind, logical = inner["type"], inner.get("logicalType")
    if logical in TIMES or logical == "date" or (logical == "decimal" and inner.get("precision")):
        return str(logical)
    if logical not in _OTHERS and isinstance(kind, str) and kind in _KINDS | {"enum", "fixed"} | NESTED:
        return kind
    raise UsageError(f"source.schema: field '{path}' is {logical or kind}, {_REFUSED}")


def encode(record: Mapping[str, Any], fields: tuple[JsonField, ...]) -> bytes:
    """Return a record that fits the schema as JSON in UTF-8. Missing fields stay missing."""
    plain = _plain_record(record, fields)
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _plain_record(record: Mapping[str, Any], fields: tuple[JsonField, ...]) -> dict[str, Any]:
    return {one.name: _plain(record[one.name], one) for one in fields if one.name in record}


def _plain(value: Any, field: JsonField) -> Any:
    if value is None:
        return None
    if field.kind == "record":
        return _plain_record(value, field.fields)
    if field.item is None:
        return _PLAIN.get(field.kind, _same)(value)
    if field.kind == "array":
        return [_plain(one, field.item) for one in value]
    return {key: _plain(one, field.item) for key, one in value.items()}


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
