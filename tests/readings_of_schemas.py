"""Pairs of a field's types, the writer's and the reader's, with values: what docs/RESOLUTION.md is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from cutwater.core.compatibility import reading
from cutwater.core.symbols import unknown_symbols

AT_MS = 1_700_000_000_123
PAGE = Path(__file__).parents[1] / "docs" / "RESOLUTION.md"


def decimal(precision: int, scale: int, **more: Any) -> dict[str, Any]:
    return {"type": "bytes", **more, "logicalType": "decimal", "precision": precision, "scale": scale}


def logical(name: str, kind: str = "long") -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


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
)


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
    if found.otherwise:
        return "rejected: " + "; ".join(one.removeprefix("x: ") for one in found.otherwise)
    if found.unfit:
        return "rejected where its value is in the way: " + "; ".join(
            one.removeprefix("x: ") for one in found.unfit
        )
    unknown = unknown_symbols(record(pair.writer), record(pair.reader))
    return "; ".join(
        ["read", *(f"{', '.join(one.symbols)} as {one.default}, and counted" for one in unknown.values())]
    )


def shown(kind: Any) -> str:
    if isinstance(kind, list):
        return f"[{', '.join(map(shown, kind))}]"
    if not isinstance(kind, dict):
        return str(kind)
    if kind.get("logicalType") == "decimal":
        return f"decimal({kind['precision']},{kind['scale']})"
    if kind["type"] == "enum":
        default = f", default {kind['default']}" if "default" in kind else ""
        place = f" in namespace {kind['namespace']}" if "namespace" in kind else ""
        return f"enum {'/'.join(kind['symbols'])}{default}{place}"
    return str(kind["logicalType"])


def page() -> str:
    rows = "\n".join(f"| {shown(one.writer)} | {shown(one.reader)} | {outcome(one)} |" for one in PAIRS)
    return HEAD + "| written as | the job's type | becomes |\n| --- | --- | --- |\n" + rows + "\n" + TAIL


HEAD = """# Avro events of other schemas, type by type

Events are read by the job's own schema (`source.schema`), whichever version has written them. This table decides
what becomes of a field; the driver logs at its start what it means for the versions that it knows, and does just
that. A rejected event is a dead letter, `undecodable`, and its rule names schema and field
([LISTS.md](LISTS.md)). A test lets Spark and another reader of Avro read values of each pair, and wrote this page.

Where old bytes would be read as other values, no event of that schema is taken: not one whose field is null,
either.

"""
TAIL = """
A decimal with fewer digits is read where its type holds the value, and rejected where it does not. Bytes that are
read as a string are rejected where they are not UTF-8, as all texts are.

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
