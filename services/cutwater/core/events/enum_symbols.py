"""Enum symbols that a writer's schema has and the reader's has not.

Avro would silently read the reader's default. So such fields are read with all symbols, and set to their default
afterwards. This applies to fields of the event itself, because no measure uses nested fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cutwater.core.events.avro_types import Schema
from cutwater.core.events.schema_alignment import aligned


class UnknownSymbols(NamedTuple):
    symbols: tuple[str, ...]
    """Symbols of the writer that the reader does not have."""
    default: str


def unknown_symbols(writer: Any, reader: Any) -> dict[str, UnknownSymbols]:
    """Return the symbols that are read as the enum's default, by field. Without a default events are rejected."""
    theirs, mine = Schema.of(aligned(writer, reader)), Schema.of(reader)
    written = {one["name"]: one["type"] for one in theirs.named[theirs.root]["fields"]}
    found = {}
    for one in mine.named[mine.root]["fields"]:
        for enum in _enums(mine, one["type"]):
            sent = (symbol for type_ in _enums(theirs, written.get(one["name"])) for symbol in type_["symbols"])
            lost = tuple(symbol for symbol in sent if symbol not in enum["symbols"])
            if lost and enum.get("default") in enum["symbols"]:
                found[one["name"]] = UnknownSymbols(lost, enum["default"])
    return found


def all_unknown(writers: Iterable[Any], reader: Any) -> dict[str, UnknownSymbols]:
    found: dict[str, UnknownSymbols] = {}
    for writer in writers:
        for name, one in unknown_symbols(writer, reader).items():
            before = found[name].symbols if name in found else ()
            found[name] = UnknownSymbols(tuple(dict.fromkeys((*before, *one.symbols))), one.default)
    return found


def widened(schema: dict[str, Any], fields: Mapping[str, UnknownSymbols]) -> dict[str, Any]:
    """Return the schema with these symbols added to the enums of its fields."""
    if not fields:
        return schema
    more = list(dict.fromkeys(symbol for one in fields.values() for symbol in one.symbols))
    made = [
        {**one, "type": _more(one["type"], more)} if one["name"] in fields else one for one in schema["fields"]
    ]
    return {**schema, "fields": made}


def _enums(schema: Schema, node: Any) -> list[dict[str, Any]]:
    branches = node if isinstance(node, list) else [node]
    return [found for one in branches if one is not None if (found := schema.type_of(one))["type"] == "enum"]


def _more(node: Any, symbols: list[str]) -> Any:
    if isinstance(node, list):
        return [_more(one, symbols) for one in node]
    if isinstance(node, dict) and node["type"] == "enum":
        return {**node, "symbols": list(dict.fromkeys([*node["symbols"], *symbols]))}
    return node  # no enum, or one that another field defines and widens
