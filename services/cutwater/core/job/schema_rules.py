"""Mistakes in Avro schemas, each with its field.

`mistakes` lists what Avro's Java library refuses in any schema. `unreadable` lists what a job's own schema must
not have: types that Spark cannot represent, and declarations that Avro ignores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cutwater.core.events.avro_types import PRIMITIVES, Schema
from cutwater.core.events.rejection import YEARS
from cutwater.core.events.schema_bounds import endless, recursive_types
from cutwater.core.events.schema_inference import alike_but_for_case
from cutwater.core.job.measures import MAX_DECIMAL

_BASES = {
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    "duration": ("fixed",),
    **dict.fromkeys(
        (
            "time-micros",
            "timestamp-millis",
            "timestamp-micros",
            "timestamp-nanos",
            "local-timestamp-millis",
            "local-timestamp-micros",
            "local-timestamp-nanos",
        ),
        ("long",),
    ),
}
"""The base types of each logical type. Avro ignores it on others."""
_SIZES = {"uuid": 16, "duration": 12}
_ORDERS = ("ascending", "descending", "ignore")
_MICROS = {"timestamp-millis": 1_000, "timestamp-micros": 1}
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def mistakes(schema: Schema, plain_names: bool = True) -> list[str]:
    """Return why a schema is invalid. `plain_names`: whether fields must have names that Avro allows."""
    return [one for name in schema.named for one in _of_named(schema, name, plain_names)]


def unreadable(written: dict[str, Any]) -> list[str]:
    """Return why a job cannot use a schema for its events. Raises UsageError if it is no Avro schema."""
    schema = Schema.of(written)
    found = endless(schema) + [
        f"{one} is recursive, which Spark does not support: leave such fields out (fields that the schema does "
        "not name are ignored; the producers' schema is an older version, or in the registry)"
        for one in recursive_types(schema)
    ]
    for name, type_ in schema.named.items():
        found += _of_logical(f"{type_['type']} {name}", type_)
        if type_["type"] == "enum":
            found += _of_enum(name, type_)
        fields = type_.get("fields", ())
        if (alike := alike_but_for_case(one["name"] for one in fields)) and name != schema.root:
            found.append(f"{', '.join(alike)} of {name} differ in case alone, which Spark does not distinguish")
        for field in fields:
            found += _of_field(schema, field, _where(schema, name, field["name"]))
    if _wraps(written):
        found.append("a type is written as {'type': {…}} with no other key: write the inner type alone")
    return found


def _wraps(node: Any) -> bool:
    """Return whether an object other than a field has an object as its type."""
    if isinstance(node, list):
        return any(map(_wraps, node))
    if not isinstance(node, dict):
        return False
    inner = [one["type"] for one in node.get("fields", ())]
    inner += [node[one] for one in ("items", "values") if one in node]
    return not isinstance(node["type"], str) or any(map(_wraps, inner))


def _where(schema: Schema, record: str, field: Any) -> str:
    return f"field '{field}'" + ("" if record == schema.root else f" of {record}")


def _of_named(schema: Schema, name: str, plain_names: bool) -> Iterator[str]:
    type_ = schema.named[name]
    for one in (name, *type_["aliases"]):
        if not all(map(_is_name, one.split("."))) or one in PRIMITIVES:
            yield f"'{one}' is not a type name: letters, digits and _, and no digit first; dots join namespaces"
    if type_["type"] == "fixed" and not (_is_whole(type_["size"]) and 0 <= type_["size"] < 2**31):
        yield f"fixed {name}: {type_['size']!r} is not a valid size"
    if type_["type"] == "enum":
        yield from _of_symbols(name, type_["symbols"])
    fields = [one["name"] for one in type_.get("fields", ())]
    for field in type_.get("fields", ()):
        where = _where(schema, name, field["name"])
        if not isinstance(field["name"], str) or (plain_names and not _is_name(field["name"])):
            yield f"{where}: no name that Avro allows: letters, digits and _, and no digit first"
        if fields.count(field["name"]) > 1:
            yield f"{where} is defined more than once"
        for union in _unions(field["type"]):
            yield from _of_union(union, where)


def _of_symbols(enum: str, symbols: list[Any]) -> Iterator[str]:
    for symbol in symbols:
        if not _is_name(symbol):
            yield f"enum {enum}: '{symbol}' is not a valid symbol: letters, digits and _, and no digit first"
        if symbols.count(symbol) > 1:
            yield f"enum {enum}: '{symbol}' is listed more than once"


def _of_union(union: list[Any], where: str) -> Iterator[str]:
    if any(isinstance(one, list) for one in union):
        yield f"{where}: a union is nested in a union"
        return
    kinds = [one["type"] if isinstance(one, dict) else one for one in union]
    for kind in dict.fromkeys(kinds):
        if kinds.count(kind) > 1:
            yield f"{where}: {kind} is in a union more than once"


def _of_enum(name: str, type_: dict[str, Any]) -> Iterator[str]:
    if not type_["symbols"]:
        yield f"enum {name}: it has no symbols"
    if "default" in type_ and type_["default"] not in type_["symbols"]:
        yield f"enum {name}: the default {type_['default']!r} is none of its symbols"


def _of_field(schema: Schema, field: dict[str, Any], where: str) -> Iterator[str]:
    if field.get("order", "ascending") not in _ORDERS:
        yield f"{where}: order {field['order']!r}; allowed: {', '.join(_ORDERS)}"
    aliases = field.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(one, str) for one in aliases):
        yield f"{where}: aliases must be a list of names"
    if [] in _unions(field["type"]):
        yield f"{where}: a union has no types"
    for node in _plain(field["type"]):
        yield from _of_logical(where, node)
    if "default" in field and not _fits(schema, field["type"], field["default"]):
        yield f"{where}: the default {str(field['default'])[:50]!r} is no value of its type"


def _of_logical(where: str, node: dict[str, Any]) -> Iterator[str]:
    logical, base = node.get("logicalType"), node["type"]
    if not isinstance(logical, str) or logical not in _BASES:
        return  # Avro ignores unknown logical types
    if base not in _BASES[logical]:
        allowed = " or ".join(_BASES[logical])
        yield f"{where}: {logical} is declared on {base}, where Avro ignores it; allowed: {allowed}"
    elif base == "fixed" and node["size"] != _SIZES.get(logical, node["size"]):
        yield f"{where}: {logical} has {_SIZES[logical]} bytes, not {node['size']}"
    elif logical == "decimal":
        yield from _of_decimal(where, node)


def _of_decimal(where: str, node: dict[str, Any]) -> Iterator[str]:
    precision: Any = node.get("precision")
    scale: Any = node.get("scale", 0)
    if not _is_whole(precision) or not 1 <= precision <= MAX_DECIMAL:
        yield f"{where}: a decimal's precision is a number from 1 to {MAX_DECIMAL}, not {precision!r}"
    elif not _is_whole(scale) or not 0 <= scale <= precision:
        yield f"{where}: a decimal's scale is a number from 0 to its precision, not {scale!r}"
    elif node["type"] == "fixed" and 10**precision > 2 ** max(0, 8 * node["size"] - 1):
        yield f"{where}: {node['size']} bytes do not hold {precision} digits"


def _fits(schema: Schema, node: Any, value: Any) -> bool:
    if isinstance(node, list):
        return any(_fits(schema, one, value) for one in node)
    type_ = schema.type_of(node)
    kind = type_["type"]
    if kind in ("array", "map"):
        of = {"array": list, "map": dict}[kind]
        inner = value.values() if isinstance(value, dict) else value
        return isinstance(value, of) and all(
            _fits(schema, type_["items" if of is list else "values"], one) for one in inner
        )
    if kind == "record":
        return isinstance(value, dict) and all(
            _fits(schema, one["type"], value[one["name"]]) if one["name"] in value else "default" in one
            for one in type_["fields"]
        )
    return _fits_plain(type_, kind, value)


def _fits_plain(type_: dict[str, Any], kind: str, value: Any) -> bool:
    if kind in ("int", "long"):
        return _is_whole(value) and _in_range(type_, kind, value)
    if kind in ("float", "double"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return value in _NOT_FINITE if isinstance(value, str) else number
    if kind in ("bytes", "fixed"):
        return isinstance(value, str) and _is_bytes(type_, value)
    if kind == "enum":
        return value in type_["symbols"]
    return isinstance(value, {"null": type(None), "boolean": bool, "string": str}[kind])


def _in_range(type_: dict[str, Any], kind: str, value: int) -> bool:
    bits = 31 if kind == "int" else 63
    micros = _MICROS.get(str(type_.get("logicalType")))
    in_years = micros is None or YEARS[0] <= value * micros <= YEARS[1]
    return -(2**bits) <= value < 2**bits and in_years


def _is_bytes(type_: dict[str, Any], value: str) -> bool:
    if any(ord(one) > 255 for one in value) or len(value) != type_.get("size", len(value)):
        return False
    if type_.get("logicalType") != "decimal" or not _is_whole(type_.get("precision")):
        return True
    number = int.from_bytes(value.encode("latin-1"), "big", signed=True)
    return bool(value) and abs(number) < 10 ** min(type_["precision"], MAX_DECIMAL)


def _unions(node: Any) -> Iterator[list[Any]]:
    if isinstance(node, list):
        yield node
        for one in node:
            yield from _unions(one)
    elif isinstance(node, dict):
        for inner in ("items", "values"):
            if inner in node:
                yield from _unions(node[inner])


def _plain(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, list):
        for one in node:
            yield from _plain(one)
    elif isinstance(node, dict):
        inner = [node[one] for one in ("items", "values") if one in node]
        yield from _plain(inner) if inner else iter([node])


def _is_name(text: Any) -> bool:
    # The rule of Avro's Java library: letters of any language, each of two bytes in UTF-16.
    return (
        isinstance(text, str)
        and text != ""
        and all(one == "_" or one.isalpha() or one.isdecimal() for one in text)
        and not text[0].isdecimal()
        and max(text) < "\U00010000"
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
