"""A normalised Avro schema, to compare, check and rewrite schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutwater.core.errors import UsageError

DEPTH_MAX = 100
"""Nested types: far more than any event has, far less than Python's stack."""
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})


@dataclass(frozen=True)
class Schema:
    """A schema in which every named type is defined once, under its full name."""

    root: Any
    """A primitive or full name, a list (union), or a dict (array, map or annotated primitive)."""
    named: dict[str, dict[str, Any]]

    @staticmethod
    def of(schema: Any) -> Schema:
        named: dict[str, dict[str, Any]] = {}
        return Schema(_in(schema, named), named)

    def type_of(self, node: Any) -> dict[str, Any]:
        if isinstance(node, dict):
            return node
        return {"type": node} if node in PRIMITIVES else self.named[node]


def in_one_piece(schema: Any, referenced: Sequence[Any]) -> Any:
    """Return a schema together with the named types that it uses of others, each defined at its first use.

    `referenced`: schemas in an order in which each uses named types of earlier ones alone. Raises UsageError if a
    type is not defined, or is defined in two ways.
    """
    named: dict[str, dict[str, Any]] = {}
    for one in (*referenced, schema):
        own: dict[str, dict[str, Any]] = dict(named)
        root = _in(one, own)
        for name, before in named.items():
            if own[name] != before:
                raise UsageError(f"the type '{name}' is defined in two ways by the schemas that it refers to")
        named = own
    return whole_schema(Schema(root, named))


def whole_schema(schema: Schema) -> Any:
    """Return the schema as Avro writes it, each named type defined at its first use.

    Raises UsageError if it nests more than 100 types.
    """
    return _Definitions(schema.named).of(schema.root, 0)


def _in(schema: Any, named: dict[str, dict[str, Any]]) -> Any:
    try:
        return _qualified(schema, "", named, 0)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"not an Avro schema: {error!r}") from None


class _Definitions:
    """Writes normalised types, each defined at its first use."""

    def __init__(self, named: dict[str, dict[str, Any]]) -> None:
        self._named = named
        self._defined: set[str] = set()

    def of(self, node: Any, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise UsageError(f"the schema and those that it refers to nest more than {DEPTH_MAX} types")
        if isinstance(node, list):
            return [self.of(one, depth + 1) for one in node]
        if isinstance(node, dict):
            inner = {one: self.of(node[one], depth + 1) for one in ("items", "values") if one in node}
            return {**node, **inner}
        if node not in self._named or node in self._defined:
            return node
        self._defined.add(node)
        made = dict(self._named[node])
        # Explicit, because a type inside of another would inherit its namespace.
        made["namespace"], _, made["name"] = node.rpartition(".")
        if "fields" in made:
            made["fields"] = [{**one, "type": self.of(one["type"], depth + 1)} for one in made["fields"]]
        return made


def _qualified(node: Any, namespace: str, named: dict[str, dict[str, Any]], depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise UsageError(f"the schema nests more than {DEPTH_MAX} types")
    if isinstance(node, list):
        return [_qualified(one, namespace, named, depth + 1) for one in node]
    if isinstance(node, str):
        name = node if node in PRIMITIVES else _full(node, namespace)
        if name not in PRIMITIVES and name not in named:
            raise UsageError(f"not an Avro schema: the type '{node}' is not defined")
        return name
    kind = node["type"]
    if not isinstance(kind, str):
        return _qualified(kind, namespace, named, depth + 1)
    if kind in NAMED:
        return _name(node, namespace, named, depth)
    for inner in ("items", "values"):
        if kind == {"items": "array", "values": "map"}[inner]:
            return {"type": kind, inner: _qualified(node[inner], namespace, named, depth + 1)}
    return {**node, "type": kind} if kind in PRIMITIVES else _qualified(kind, namespace, named, depth)


def _name(node: dict[str, Any], namespace: str, named: dict[str, dict[str, Any]], depth: int) -> str:
    name = _full(node["name"], node.get("namespace", namespace))
    inside = name.rpartition(".")[0]
    made = {**node, "name": name, "aliases": [_full(one, inside) for one in node.get("aliases", [])]}
    named[name] = made  # before its fields, because a record may contain itself
    if node["type"] in ("record", "error"):
        made["type"] = "record"
        made["fields"] = [
            {**one, "type": _qualified(one["type"], inside, named, depth + 1)} for one in node["fields"]
        ]
    return name


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
