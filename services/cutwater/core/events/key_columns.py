"""Columns of a key: one text per value, and a compact JSON array of such texts as a key of several columns.

The driver makes the same bytes in Spark's SQL, and a test compares the two. So a key has one text, by which it is
found, compared and assigned to a shard.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Context, Decimal
from typing import Any, NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.util.suggestions import value_text

KEY_COLUMNS_MAX = 8
PARAMETERS = frozenset(
    {"key", "key64", "from", "to", "shards", "after", "limit", "at_least", "wait_ms", "partial"}
)
"""Parameters of the API's routes that take key columns, beside which a column could not be told."""
NULL = "null"
"""One more, which names the columns that are null, where a null is a key."""
TEXT, NUMBER, BOOLEAN, DATE, UUID = "string", "long", "boolean", "date", "uuid"
DAYS = -719_162, 2_932_896
"""The first and the last day that a key has, of the years 1 and 9999, in days since 1970. Beyond them dates have
another form, and many readers have none."""
_EPOCH = date(1970, 1, 1).toordinal()
_WIDE = Context(prec=100)
_NUMBER, _DATE = re.compile(r"-?[0-9]{1,19}"), re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DECIMAL = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")
_KIND_OF_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_DIGITS_MAX = 1_000
_MUST_BE = {
    NUMBER: "no whole number",
    BOOLEAN: "neither true nor false",
    DATE: "no date of the years 1 to 9999, such as 2013-01-31",
    UUID: "no UUID, such as 01234567-89ab-cdef-0123-456789abcdef",
}
_LOWER_HEX = re.compile(r"(?<!\\)((?:\\\\)*\\u00)([01][a-f])")


class KeyColumn(NamedTuple):
    name: str
    kind: str
    """The type that readers see: `string`, `long` for whole numbers, `boolean`, `date`, `uuid` or
    `decimal(precision,scale)`."""
    nullable: bool = False
    """Whether null is a value of its own. Else an event without a value has no key."""

    @property
    def avro(self) -> Any:
        """The Avro type of its values that are not null."""
        if found := _KIND_OF_DECIMAL.fullmatch(self.kind):
            digits = {"precision": int(found[1]), "scale": int(found[2])}
            return {"type": "bytes", "logicalType": "decimal", **digits}
        base = {DATE: "int", UUID: "string"}.get(self.kind)
        return {"type": base, "logicalType": self.kind} if base else self.kind

    @property
    def avro_field(self) -> dict[str, Any]:
        if self.nullable:
            return {"name": self.name, "type": ["null", self.avro], "default": None}
        return {"name": self.name, "type": self.avro}


def text_of(column: KeyColumn, value: Any) -> str:
    """Return the text of an event's value, which is not null: a Python value, or what Avro has without its logical
    type (days since 1970, the bytes of a decimal or UUID). Raises UsageError for a date of other years."""
    if column.kind == BOOLEAN:
        return "true" if value else "false"
    if column.kind == DATE:
        return date_text(value)
    if column.kind == UUID:
        return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(str(value)))
    if found := _KIND_OF_DECIMAL.fullmatch(column.kind):
        scale = int(found[2])
        if isinstance(value, bytes):
            return _with_point(int.from_bytes(value, "big", signed=True), scale)
        return _with_point(int(Decimal(value).scaleb(scale, _WIDE)), scale)
    return str(value)


def date_text(value: Any) -> str:
    """Return a date, its text or its number of days since 1970 as its text. Raises UsageError beyond DAYS."""
    given = date.fromisoformat(value) if isinstance(value, str) else value
    days = given.toordinal() - _EPOCH if isinstance(given, date) else given
    if not DAYS[0] <= days <= DAYS[1]:
        raise UsageError(f"the day {days} since 1970 is outside the years 1 to 9999")
    return date.fromordinal(days + _EPOCH).isoformat()


def key_text(texts: Iterable[str | None]) -> str:
    """Return the key of these texts, of which None is a null."""
    text = json.dumps(list(texts), ensure_ascii=False, separators=(",", ":"))
    # Spark writes control characters with capital digits.
    return _LOWER_HEX.sub(lambda found: found[1] + found[2].upper(), text)


def key_prefix(texts: Sequence[str | None]) -> str:
    """Return the beginning of each key with these leading texts and further ones."""
    return key_text(texts)[:-1] + ("," if texts else "")


def key_texts(text: str, columns: Sequence[KeyColumn]) -> list[str | None]:
    """Return the texts in a key, or in a JSON array that a person writes for one. Raises UsageError for no key of
    these columns."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != len(columns) or not all(map(_may_be, columns, found)):
        names = ", ".join(one.name for one in columns) or "none"
        raise UsageError(f"{value_text(text)} is no key of this job, whose key columns are: {names}")
    return [None if one is None else column_text(column, one) for column, one in zip(columns, found, strict=True)]


def key_values(text: str, columns: Sequence[KeyColumn]) -> dict[str, Any]:
    """Return the columns' values of a key; a UUID as its text. Raises UsageError as `key_texts`."""
    texts = key_texts(text, columns)
    return {column.name: _value(column, one) for column, one in zip(columns, texts, strict=True)}


def shown_values(fields: Mapping[str, Any], columns: Sequence[KeyColumn]) -> dict[str, Any] | None:
    """Return the columns' values of a row of the output, which has each as a field of its own, as `key_values`
    does; None if it lacks one. Raises ValueError for a text that is no date."""
    if not all(one.name in fields for one in columns):
        return None
    return {one.name: _shown(one, fields[one.name]) for one in columns}


def no_value(column: KeyColumn) -> Any:
    """Return what stands in Avro for a column without a value: null, or where its type has none, nothing or 0."""
    if column.nullable:
        return None
    known = {TEXT: "", NUMBER: 0, BOOLEAN: False, DATE: date(1970, 1, 1), UUID: str(uuid.UUID(int=0))}
    return known.get(column.kind, Decimal(0))


def _shown(column: KeyColumn, value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return str(value)
    return _value(column, value) if isinstance(value, str) else value


def values_plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns' values for JSON: dates and decimals as their texts."""
    return {
        name: one.isoformat() if isinstance(one, date) else f"{one:f}" if isinstance(one, Decimal) else one
        for name, one in values.items()
    }


def column_text(column: KeyColumn, given: str) -> str:
    """Return a column's value, as a person writes it, as it is in keys. Raises UsageError if it is none."""
    made = given if column.kind == TEXT else _canonical(column.kind, given)
    if made is None:
        what = _MUST_BE.get(column.kind, f"no {column.kind}, which has no exponent and is not rounded")
        raise UsageError(f"{column.name}={value_text(given)} is {what}")
    return made


def _may_be(column: KeyColumn, found: Any) -> bool:
    return _is_text(found) if type(found) is str else found is None and column.nullable


def _is_text(found: str) -> bool:
    """Return whether it can be written: JSON can escape half a surrogate pair, which UTF-8 does not have."""
    try:
        found.encode()
    except UnicodeEncodeError:
        return False
    return True


def _value(column: KeyColumn, text: str | None) -> Any:
    if text is None or column.kind in (TEXT, UUID):
        return text
    if column.kind == NUMBER:
        return int(text)
    if column.kind == BOOLEAN:
        return text == "true"
    return date.fromisoformat(text) if column.kind == DATE else Decimal(text)


def _canonical(kind: str, given: str) -> str | None:
    if kind == NUMBER:
        return str(int(given)) if _NUMBER.fullmatch(given) else None
    if kind == BOOLEAN:
        return given if given in ("true", "false") else None
    if kind == UUID:
        return given.lower() if _UUID.fullmatch(given.lower()) else None
    if kind == DATE:
        with suppress(ValueError):
            return date.fromisoformat(given).isoformat() if _DATE.fullmatch(given) else None
        return None
    return _decimal_text(kind, given)


def _decimal_text(kind: str, given: str) -> str | None:
    of, found = _KIND_OF_DECIMAL.fullmatch(kind), _DECIMAL.fullmatch(given)
    if of is None or found is None or len(given) > _DIGITS_MAX:
        return None
    precision, scale = int(of[1]), int(of[2])
    whole, fraction = found[2].lstrip("0"), (found[3] or "").rstrip("0")
    if len(whole) > precision - scale or len(fraction) > scale:
        return None
    digits = whole + fraction.ljust(scale, "0")
    return _with_point(int(found[1] + (digits or "0")), scale)


def _with_point(number: int, scale: int) -> str:
    """Return a decimal, a whole number without its point, with all digits behind the point."""
    digits = f"{abs(number):0{scale + 1}}"
    point = len(digits) - scale
    return f"{'-' if number < 0 else ''}{digits[:point]}{'.' if scale else ''}{digits[point:]}"
