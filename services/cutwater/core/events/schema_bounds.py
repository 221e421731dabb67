"""Bounds on schemas, so that an event of few bytes cannot keep a reader busy or overflow its stack.

Avro's readers make one nested call per nested type, and visit every item of a list, even items of zero bytes. A
StackOverflowError ends a Spark job permanently, and a list of 2^62 nulls takes five bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from cutwater.core.events.avro_types import Schema

CALLS_MAX = 2_000
"""Nested types in an event: half of what the default stack of Java holds in interpreted code."""
TYPES_MAX = 1_000
"""Nested types in a schema, including references by name; also the steps of a value of zero bytes."""
_CHARACTERS_MAX = 200_000
"""Of an unrolled schema, which is part of the query plan."""
_TOO_DEEP = "CutwaterTooDeep"


def endless(schema: Schema) -> list[str]:
    """Return why the size of an event does not bound the cost of reading it; empty if it does."""
    return list(_Bounds(schema).reasons())


def recursive_types(schema: Schema) -> list[str]:
    """Return the recursive named types, which Spark cannot represent."""
    return _Bounds(schema).recursive


class UnrolledSchema(NamedTuple):
    """A record schema without recursive types that reads the same bytes, down to some depth."""

    types: tuple[dict[str, Any], ...]
    """The types that `schema` names. They are listed before it, because nested they are too deep for a parser."""
    schema: Any
    levels: int | None
    """The depth to which recursive types are unrolled; deeper events are undecodable. None if there are none."""


def unroll_recursion(schema: Any) -> UnrolledSchema:
    """Return the schema with recursive types unrolled. Raises UsageError if it is no Avro schema."""
    read = Schema.of(schema)
    bounds = _Bounds(read)
    if not bounds.recursive:
        return UnrolledSchema((), schema, None)
    depths = {one: bounds.depth(one) for one in read.named}  # in this order, recursion is as deep as the text
    inner = max(depths[one] for one in bounds.recursive)
    size = len(json.dumps([read.named[one] for one in bounds.recursive]))
    levels = max(2, min(CALLS_MAX // inner, _CHARACTERS_MAX // size))
    unrolling = _Unrolling(read, bounds.recursive, levels)
    types = tuple(unrolling.types())
    return UnrolledSchema(types, unrolling.root(), levels)


class _Bounds:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._depths: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        within = {one: self._within(one) for one in schema.named}
        cycles = {one for one, inner in within.items() if one in inner}
        passed = {one for name in cycles for one in within[name]}
        # Types between two recursive types are unrolled as well.
        self.recursive = sorted(cycles | {one for one in passed if within[one] & cycles})

    def reasons(self) -> Iterator[str]:
        named = self._schema.named
        if any(self.depth(one) > TYPES_MAX for one in named):
            yield f"it nests more than {TYPES_MAX:,} types"
            return
        for name, type_ in named.items():
            if self._empty_steps(name) > TYPES_MAX:
                yield f"a value of {name} takes 0 bytes and more than {TYPES_MAX:,} steps"
            for field in type_.get("fields", ()):
                if any(self._empty_steps(one) for one in _items(field["type"])):
                    yield f"{field['name']}: an item takes 0 bytes, so a few bytes can declare 2^62 items"

    def depth(self, node: Any) -> int:
        """Return the nested calls for a value; a recursive type counts from 0."""
        if isinstance(node, str) and node in self._schema.named:
            if node not in self._depths:
                inner = [self._level(one["type"]) for one in self._schema.named[node].get("fields", ())]
                self._depths[node] = 1 + max(inner, default=0)
            return self._depths[node]
        return int(bool(_inside(node))) + max(map(self._level, _inside(node)), default=0)

    def _level(self, node: Any) -> int:
        return 0 if isinstance(node, str) and node in self.recursive else self.depth(node)

    def _empty_steps(self, node: Any) -> int:
        """Return the steps of a value of zero bytes; 0 if it takes at least one byte."""
        if not isinstance(node, str) or node not in self._schema.named:
            return int(node == "null" or (isinstance(node, dict) and node["type"] == "null"))
        if node not in self._steps:
            self._steps[node] = 0  # for recursion: such a value is endless, so it has bytes
            type_ = self._schema.named[node]
            inner = [self._empty_steps(one["type"]) for one in type_.get("fields", ())]
            empty = all(inner) and (type_["type"] == "record" or type_.get("size") == 0)
            self._steps[node] = 1 + sum(inner) if empty else 0
        return self._steps[node]

    def _within(self, name: str) -> set[str]:
        found: set[str] = set()
        todo: list[Any] = [one["type"] for one in self._schema.named[name].get("fields", ())]
        while todo:
            node = todo.pop()
            if not isinstance(node, str):
                todo += _inside(node)
            elif node in self._schema.named and node not in found:
                found.add(node)
                todo += [one["type"] for one in self._schema.named[node].get("fields", ())]
        return found


def _inside(node: Any) -> list[Any]:
    if isinstance(node, list):
        return node
    return [node[one] for one in ("items", "values") if one in node] if isinstance(node, dict) else []


def _items(node: Any) -> Iterator[Any]:
    """Yield the item types of lists. Items of a map have a key, which takes a byte."""
    if isinstance(node, dict) and "items" in node:
        yield node["items"]
    for one in _inside(node):
        yield from _items(one)


class _Unrolling:
    def __init__(self, schema: Schema, recursive: list[str], levels: int) -> None:
        self._schema, self._recursive, self._levels = schema, recursive, levels
        self._told: set[str] = set()
        """Non-recursive named types that are defined already."""

    def types(self) -> Iterator[dict[str, Any]]:
        # No bytes fit an empty union, so a deeper event is undecodable.
        none = {"name": "none", "type": []}
        yield {"type": "record", "name": _TOO_DEEP, "namespace": "io.cutwater", "fields": [none]}
        for level in range(self._levels, 0, -1):
            yield from (
                self._named(one, level) for one in self._recursive if (one, level) != (self._schema.root, 1)
            )

    def root(self) -> Any:
        name = self._schema.root
        return self._named(name, int(name in self._recursive))

    def of(self, node: Any, level: int) -> Any:
        if isinstance(node, list):
            return [self.of(one, level) for one in node]
        if isinstance(node, dict):
            return {key: self.of(one, level) if key in ("items", "values") else one for key, one in node.items()}
        if node in self._recursive:
            return self._name(node, level + 1) if level < self._levels else f"io.cutwater.{_TOO_DEEP}"
        if node not in self._schema.named or node in self._told:
            return node
        self._told.add(node)
        return self._named(node, level)

    def _named(self, name: str, level: int) -> dict[str, Any]:
        made = {key: what for key, what in self._schema.named[name].items() if key != "aliases"}
        namespace, _, short = (self._name(name, level) if name in self._recursive else name).rpartition(".")
        made |= {"name": short, "namespace": namespace}
        if "fields" in made:
            made["fields"] = [{**one, "type": self.of(one["type"], level)} for one in made["fields"]]
        return made

    def _name(self, name: str, level: int) -> str:
        # The first level keeps the name that other types use.
        return name if level == 1 else f"{name}_at_level_{level}"
