"""A normalised Avro schema, to compare, check and rewrite schemas."""

from __future__ import annotations

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
        try:
            return Schema(_qualified(schema, "", named, 0), named)
        except (KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"not an Avro schema: {error!r}") from None

    def type_of(self, node: Any) -> dict[str, Any]:
        if isinstance(node, dict):
            return node
        return {"type": node} if node in PRIMITIVES else self.named[node]


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
