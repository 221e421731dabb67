"""Symbols of enums that a writer's schema has and its reader's has not: Avro reads the reader's default instead.

Nobody would see it in what was read. So such fields are read with all symbols, and given their default afterwards.
Only fields of the event itself: no measure is over what is inside of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cutwater.core.events.avro_types import Schema
from cutwater.core.events.schema_alignment import aligned


class Unknown(NamedTuple):
    """Of a field of the reader's."""

    symbols: tuple[str, ...]
    """Those of the writer's that it does not have."""
    default: str


def unknown_symbols(writer: Any, reader: Any) -> dict[str, Unknown]:
    """By field what is read as the default of the field's enum. Without a default such an event is rejected."""
    theirs, mine = Schema.of(aligned(writer, reader)), Schema.of(reader)
    written = {one["name"]: one["type"] for one in theirs.named[theirs.root]["fields"]}
    found = {}
    for one in mine.named[mine.root]["fields"]:
        for enum in _enums(mine, one["type"]):
            sent = (symbol for type_ in _enums(theirs, written.get(one["name"])) for symbol in type_["symbols"])
            lost = tuple(symbol for symbol in sent if symbol not in enum["symbols"])
            if lost and enum.get("default") in enum["symbols"]:
                found[one["name"]] = Unknown(lost, enum["default"])
    return found


def all_unknown(writers: Iterable[Any], reader: Any) -> dict[str, Unknown]:
    """The same of several writers together."""
    found: dict[str, Unknown] = {}
    for writer in writers:
        for name, one in unknown_symbols(writer, reader).items():
            before = found[name].symbols if name in found else ()
            found[name] = Unknown(tuple(dict.fromkeys((*before, *one.symbols))), one.default)
    return found


def widened(schema: dict[str, Any], fields: Mapping[str, Unknown]) -> dict[str, Any]:
    """The schema with these symbols in the enums that its fields define."""
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
    return node  # no enum, or one that another field defines, and with which it is widened
