"""The schema that Avro events are read with, and what is judged and corrected in their values afterwards.

Two readings of Avro change a value without a word. Spark takes the last eight bytes of a decimal of up to 18
digits and ignores the others. Avro reads an enum's symbol that the reader does not have as the enum's default. So
such decimals are read with as many digits as can be, and such enums with the symbols of all writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cutwater.core.events.avro_types import Schema, whole_schema
from cutwater.core.events.schema_alignment import aligned

_LONG_DIGITS = 18
"""The most digits that Spark stores in a long."""
_LONG_BYTES = 8
_DIGITS_BYTES = 16
"""Of Spark's largest decimals, of 38 digits."""


class UnknownSymbols(NamedTuple):
    symbols: tuple[str, ...]
    """Symbols of writers that the reader does not have."""
    default: str


@dataclass(frozen=True)
class Correction:
    """What to do with a value of the widened schema. One of the four is set."""

    decimal: str = ""
    """Its type in the reader's schema, as SQL: a value that does not fit makes the event undecodable."""
    unknown: UnknownSymbols | None = None
    """Symbols to replace by the enum's default; the event counts as read in part."""
    fields: Mapping[str, Correction | None] | None = None
    """Of each field of the struct in the schema's order; None for one that stays as it is."""
    item: Correction | None = None
    """Of each element of an array, or of each value of a map."""
    is_map: bool = False


class ReaderSchema(NamedTuple):
    schema: dict[str, Any]
    """The schema to read with."""
    correction: Correction | None
    """Of the event; None if its schema is read as it is."""


def unknown_symbols(writers: Iterable[Any], reader: Any) -> dict[str, UnknownSymbols]:
    """Return the symbols that are read as the enum's default, by the enum's full name in the reader's schema.

    Events with an unknown symbol of an enum without a default are rejected.
    """
    theirs = [Schema.of(aligned(writer, reader)).named for writer in writers]
    found = {}
    for name, enum in Schema.of(reader).named.items():
        if enum["type"] != "enum" or enum.get("default") not in enum["symbols"]:
            continue
        sent = [symbol for named in theirs for symbol in named.get(name, {}).get("symbols", ())]
        if lost := tuple(dict.fromkeys(symbol for symbol in sent if symbol not in enum["symbols"])):
            found[name] = UnknownSymbols(lost, enum["default"])
    return found


def reader_schema(schema: dict[str, Any], writers: Iterable[Any]) -> ReaderSchema:
    """Return how to read events of these writers as events of a job's schema, which has no recursive type."""
    read, unknown = Schema.of(schema), unknown_symbols(writers, schema)
    correction = _correction(read, read.root, unknown)
    if correction is None:
        return ReaderSchema(schema, None)
    named = {name: _widened(type_, unknown.get(name)) for name, type_ in read.named.items()}
    return ReaderSchema(whole_schema(Schema(read.root, named)), correction)


def _correction(schema: Schema, node: Any, unknown: Mapping[str, UnknownSymbols]) -> Correction | None:
    if isinstance(node, list):
        return _of_union(schema, node, unknown)
    type_ = schema.type_of(node)
    if _is_cut(type_):
        return Correction(decimal=f"decimal({type_['precision']},{type_.get('scale', 0)})")
    if type_["type"] == "enum" and type_["name"] in unknown:
        return Correction(unknown=unknown[type_["name"]])
    if type_["type"] == "record":
        return _of_fields({one["name"]: _correction(schema, one["type"], unknown) for one in type_["fields"]})
    inner = type_.get("items", type_.get("values"))
    if type_["type"] not in ("array", "map") or (found := _correction(schema, inner, unknown)) is None:
        return None
    return Correction(item=found, is_map=type_["type"] == "map")


def _of_union(schema: Schema, branches: list[Any], unknown: Mapping[str, UnknownSymbols]) -> Correction | None:
    """Spark reads a union of several types as a struct with a member for each."""
    found = [_correction(schema, one, unknown) for one in branches if one != "null"]
    if len(found) == 1:
        return found[0]
    return _of_fields({f"member{at}": one for at, one in enumerate(found)})


def _of_fields(fields: Mapping[str, Correction | None]) -> Correction | None:
    return Correction(fields=fields) if any(fields.values()) else None


def _is_cut(type_: Mapping[str, Any]) -> bool:
    """Return whether Spark reads the type as a long, and its bytes may exceed one."""
    if type_.get("logicalType") != "decimal" or "precision" not in type_:
        return False
    return bool(type_["precision"] <= _LONG_DIGITS and type_.get("size", _LONG_BYTES + 1) > _LONG_BYTES)


def _digits(size: int) -> int:
    """Return the most digits of which each number fits into so many bytes, and is one of Spark's decimals."""
    return len(str(2 ** (8 * min(size, _DIGITS_BYTES) - 1))) - 1


def _widened(node: Any, unknown: UnknownSymbols | None = None) -> Any:
    if isinstance(node, list):
        return [_widened(one) for one in node]
    if not isinstance(node, dict):
        return node
    if unknown is not None:
        return {**node, "symbols": [*node["symbols"], *unknown.symbols]}
    if _is_cut(node):
        return {**node, "precision": _digits(node.get("size", _DIGITS_BYTES))}
    made = {one: _widened(node[one]) for one in ("items", "values") if one in node}
    if "fields" in node:
        made["fields"] = [{**one, "type": _widened(one["type"])} for one in node["fields"]]
    return {**node, **made}
