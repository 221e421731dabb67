"""Pairs of a field's types, the writer's and the reader's, with values: what docs/RESOLUTION.md is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.core.events.reader_schema import unknown_symbols
from cutwater.core.events.schema_compatibility import reading

AT_MS = 1_700_000_000_123
PAGE = Path(__file__).parents[3] / "docs" / "RESOLUTION.md"


def decimal(precision: int, scale: int, **more: Any) -> dict[str, Any]:
    return {"type": "bytes", **more, "logicalType": "decimal", "precision": precision, "scale": scale}


def logical(name: str, kind: str = "long") -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


def fixed(size: int, name: str = "Fixed", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def row(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [*fields]}


def many(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


def by_key(kind: Any) -> dict[str, Any]:
    return {"type": "map", "values": kind}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "Colour", "symbols": [*symbols], **more}


class Pair(NamedTuple):
    writer: Any
    reader: Any
    values: tuple[Any, ...]
    """Of the writer's underlying type: what its bytes say without a logical type."""


def unscaled(*numbers: int) -> tuple[bytes, ...]:
    return tuple(one.to_bytes(9, "big", signed=True) for one in numbers)


MILLIS, MICROS = logical("timestamp-millis"), logical("timestamp-micros")
MONEY, COLOURS = decimal(12, 2), enum("RED", "GREEN")
DATE, DAY_MS, DAY_US = logical("date", "int"), logical("time-millis", "int"), logical("time-micros")
LOCAL_MS, LOCAL_US = logical("local-timestamp-millis"), logical("local-timestamp-micros")
COUNTRY = logical("country", "string")
STORED = fixed(8, "Money", logicalType="decimal", precision=12, scale=2)
A, B = {"name": "a", "type": "int"}, {"name": "b", "type": ["null", "int"], "default": None}
PAIRS = (
    *(Pair("int", one, (7, -7)) for one in ("int", "long", "float", "double", "string", MILLIS)),
    *(Pair("long", one, (7, AT_MS)) for one in ("long", "double", "int", MILLIS, MICROS)),
    *(Pair("double", one, (0.5,)) for one in ("double", "float", "long", "string")),
    *(Pair("string", one, ("a", "ü")) for one in ("string", "bytes", logical("uuid", "string"), COLOURS, MONEY)),
    *(Pair("bytes", one, (b"a", b"\xc3\xbc")) for one in ("bytes", "string", MONEY)),
    *(Pair(MILLIS, one, (AT_MS,)) for one in (MILLIS, MICROS, "long")),
    *(Pair(MICROS, one, (AT_MS * 1000,)) for one in (MICROS, MILLIS)),
    *(
        Pair(MONEY, one, unscaled(12_345, 999_999_999_999))
        for one in (MONEY, decimal(14, 2), decimal(10, 2), decimal(30, 2), decimal(12, 3), "bytes")
    ),
    Pair(decimal(12, 3), MONEY, unscaled(12_345)),
    Pair("int", ["null", "long"], (7,)),
    Pair(["null", "int"], ["null", "long"], (None, 7)),
    Pair(["null", "int"], "long", (None, 7)),
    Pair(["int", "string"], "int", (7, "a")),
    Pair(["null", decimal(12, 3)], ["null", MONEY], (None, *unscaled(12_345))),
    Pair(COLOURS, COLOURS, ("RED",)),
    Pair(COLOURS, "string", ("RED",)),
    Pair(enum("RED", "BLUE"), COLOURS, ("RED", "BLUE")),
    Pair(enum("RED", "BLUE"), enum("UNKNOWN", "RED", default="UNKNOWN"), ("RED", "BLUE")),
    Pair({**COLOURS, "namespace": "elsewhere"}, COLOURS, ("GREEN",)),
    *(Pair("boolean", one, (True, False)) for one in ("boolean", "int", "string")),
    *(Pair("float", one, (0.5,)) for one in ("float", "double", "int")),
    Pair("long", "float", (7,)),
    *(Pair(fixed(4), one, (b"abcd",)) for one in (fixed(4), fixed(5), fixed(4, "Other"), "bytes")),
    Pair(STORED, STORED, ((12_345).to_bytes(8, "big"),)),
    *(Pair(STORED, one, ((12_345).to_bytes(8, "big"),)) for one in (MONEY, fixed(8, "Money"))),
    *(Pair(DATE, one, (19_000,)) for one in (DATE, "int", MILLIS)),
    *(Pair(DAY_MS, one, (5_000,)) for one in (DAY_MS, "int", DAY_US)),
    *(Pair(DAY_US, one, (5_000,)) for one in (DAY_US, "long")),
    *(Pair(LOCAL_MS, one, (AT_MS,)) for one in (LOCAL_MS, LOCAL_US, MILLIS, "long")),
    *(Pair(LOCAL_US, one, (AT_MS * 1000,)) for one in (LOCAL_US, LOCAL_MS, MICROS)),
    *(Pair(many("int"), one, ([1, 2], [])) for one in (many("int"), many("long"), "int")),
    *(Pair(many("int"), one, ([1, 2],)) for one in (many("string"), by_key("int"))),
    Pair(many(MILLIS), many(MICROS), ([AT_MS],)),
    *(Pair(by_key("int"), one, ({"k": 1},)) for one in (by_key("int"), by_key("double"), by_key("string"))),
    *(Pair(row(A), one, ({"a": 1},)) for one in (row(A), row({**A, "type": "long"}, B), "string")),
    Pair(row(A), row(A, {**B, "type": "int", "default": 7}), ({"a": 1},)),
    Pair(row(A), row(A, {"name": "c", "type": "int"}), ({"a": 1},)),
    Pair(row(A, B), row(B), ({"a": 1, "b": 2},)),
    *(Pair(COUNTRY, one, ("DE",)) for one in (COUNTRY, "string")),
    Pair("string", COUNTRY, ("DE",)),
)
TYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "boolean": ("boolean", (True,)),
    "int": ("int", (7, -7)),
    "long": ("long", (7, AT_MS)),
    "float": ("float", (0.5,)),
    "double": ("double", (0.5,)),
    "string": ("string", ("a", "ü")),
    "bytes": ("bytes", (b"a", b"\xc3\xbc")),
    "enum": (COLOURS, ("RED",)),
    "fixed": (fixed(4), (b"abcd",)),
    "uuid": (logical("uuid", "string"), ("12345678-1234-5678-1234-567812345678",)),
    "date": (DATE, (19_000,)),
    "time-millis": (DAY_MS, (5_000,)),
    "time-micros": (DAY_US, (5_000,)),
    "timestamp-millis": (MILLIS, (AT_MS,)),
    "timestamp-micros": (MICROS, (AT_MS * 1000,)),
    "local-timestamp-millis": (LOCAL_MS, (AT_MS,)),
    "local-timestamp-micros": (LOCAL_US, (AT_MS * 1000,)),
    "decimal": (MONEY, unscaled(12_345)),
    "decimal in fixed": (STORED, ((12_345).to_bytes(8, "big"),)),
    "array": (many("int"), ([1, 2], [])),
    "map": (by_key("int"), ({"k": 1}, {})),
    "record": (row(A), ({"a": 1},)),
    "null or int": (["null", "int"], (None, 7)),
    "int or string": (["int", "string"], (7, "a")),
}
"""Each type with values of its underlying one. `table` has each by each."""
EVERY = {
    writer: [Pair(schema, reader, values) for reader, _ in TYPES.values()]
    for writer, (schema, values) in TYPES.items()
}
_ROUNDED = (("int", "float"), ("long", "float"), ("long", "double"))
"""Promotions by Avro's rule in which a number may not survive as it is."""


def record(kind: Any, **field: Any) -> dict[str, Any]:
    base = [
        {"name": "key", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    return {
        "type": "record",
        "name": "Event",
        "namespace": "test",
        "fields": [*base, {"name": "x", "type": kind, **field}],
    }


def outcome(pair: Pair) -> str:
    """As the page has it."""
    found = reading(record(pair.writer), record(pair.reader))
    if found.refused:
        return "rejected: " + "; ".join(one.removeprefix("x: ") for one in found.refused)
    if found.unfit:
        return "rejected where its value is in the way: " + "; ".join(
            one.removeprefix("x: ") for one in found.unfit
        )
    if (pair.writer, pair.reader) in _ROUNDED:
        return "read, rounded to the nearest"
    unknown = unknown_symbols([record(pair.writer)], record(pair.reader))
    return "; ".join(
        ["read", *(f"{', '.join(one.symbols)} as {one.default}, and counted" for one in unknown.values())]
    )


def shown(kind: Any) -> str:
    if isinstance(kind, list):
        return f"[{', '.join(map(shown, kind))}]"
    if not isinstance(kind, dict):
        return str(kind)
    if kind.get("logicalType") == "decimal":
        of = f" in {kind['size']} bytes" if "size" in kind else ""
        return f"decimal({kind['precision']},{kind['scale']}){of}"
    if kind.get("logicalType") == "country":
        return "string (country, which Avro does not know)"
    return str(kind["logicalType"]) if "logicalType" in kind else _SHOWN[kind["type"]](kind)


def _enum(kind: dict[str, Any]) -> str:
    default = f", default {kind['default']}" if "default" in kind else ""
    place = f" in namespace {kind['namespace']}" if "namespace" in kind else ""
    return f"enum {'/'.join(kind['symbols'])}{default}{place}"


def _field(one: dict[str, Any]) -> str:
    return f"{one['name']} {shown(one['type'])}" + (f", default {one['default']}" if "default" in one else "")


_SHOWN: dict[str, Callable[[dict[str, Any]], str]] = {
    "enum": _enum,
    "fixed": lambda one: f"fixed {one['name']} of {one['size']} bytes",
    "array": lambda one: f"array of {shown(one['items'])}",
    "map": lambda one: f"map of {shown(one['values'])}",
    "record": lambda one: f"record of {', '.join(map(_field, one['fields']))}",
}


def sign(pair: Pair) -> str:
    """The outcome in one character."""
    found = reading(record(pair.writer), record(pair.reader))
    if found.refused:
        return "✗"
    if found.unfit:
        return "v"
    return "≈" if (pair.writer, pair.reader) in _ROUNDED else "✓"


def table() -> str:
    """Every type by every type."""
    heads = "| written as | " + " | ".join(TYPES) + " |\n" + "| --- " * (len(TYPES) + 1) + "|\n"
    return heads + "".join(f"| {writer} | {' | '.join(map(sign, pairs))} |\n" for writer, pairs in EVERY.items())


def page() -> str:
    rows = "\n".join(f"| {shown(one.writer)} | {shown(one.reader)} | {outcome(one)} |" for one in PAIRS)
    return (
        HEAD
        + "| written as | the job's type | becomes |\n| --- | --- | --- |\n"
        + rows
        + "\n"
        + EACH
        + table()
        + TAIL
    )


HEAD = """# Avro events of other schemas, type by type

Events are read by the job's own schema (`source.schema`), whichever version has written them. This table decides
what becomes of a field; the driver logs at its start what it means for the versions that it knows, and does just
that. A rejected event is a dead letter, `undecodable`, and its rule names schema and field
([LISTS.md](LISTS.md)). A test lets Spark and another reader of Avro read values of each pair, and wrote this page.

Where old bytes would be read as other values, no event of that schema is taken: not one whose field is null,
either. Whole numbers become floats by Avro's own rule: a float holds them up to 2^24, a double up to 2^53, and
others are *rounded to the nearest*. A field that is summed should have the writers' type.

"""
EACH = """
## Each type by each type

A row is a type in the writer's schema, a column one in the job's. ✓ is read; ≈ is read, rounded to the nearest;
v is rejected where its value is in the way; ✗ is rejected, and no event of that schema is taken. Decimals have 12
digits, 2 of them behind the point, in both.

"""
TAIL = """
A decimal with fewer digits is read where its type holds the value, and rejected where it does not. Bytes that are
read as a string are rejected where they are not UTF-8, as all texts are.

## Schemas without an end

A type that holds itself may stand in fields that the job's schema does not have. It is read to some depth, 1,000
levels of a small record and fewer of a large one (the driver's plan holds each level); deeper events are rejected.
No event is taken of a schema whose bytes bound nothing: an array of items that take no byte, such as `array of
null`, and types that are more than 1,000 within each other. Nor of a version in a registry that is not Avro,
refers to what is missing, or is no schema by Avro's rules: the other versions are read.

## Names

| the writer's schema | becomes |
| --- | --- |
| its record has another name, or stands in another namespace | read |
| its enum or fixed stands in another namespace | read |
| its enum or fixed has another name, and the job's has no alias of it | rejected |
| a field has another name, and the job's has an alias of it | read, in another namespace too |
| a field is missing, and the job's has a default | read as the default |
| a field is missing, and the job's has no default | rejected |
| a field that the job's schema does not have | passed over |
| a symbol that the job's enum does not have, and that has a default | read as the default, and counted |
| the same, inside of a record or list in a field, which no measure is over | read as the default |

Events with such a symbol are counted by `cutwater_driver_default_symbols_total` ([METRICS.md](METRICS.md)); the
driver's log names schema, field and symbols at its start. With the symbol in the job's schema it is itself.
"""


def plain(schema: Any) -> Any:
    """The schema without logical types: its bytes as they are."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if isinstance(schema, dict):
        return {key: plain(one) for key, one in schema.items() if key not in ("logicalType", "precision", "scale")}
    return schema
