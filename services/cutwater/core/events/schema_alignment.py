"""A writer's schema with the names of its reader's.

Names are not part of an event's bytes, so a schema can be renamed. Avro's readers look up a field's alias only in
records of the same full name. If the writer has another namespace, a renamed field would silently get its default.
"""

from __future__ import annotations

from typing import Any

from cutwater.core.events.avro_types import Schema
from cutwater.core.events.schema_compatibility import same_name


def aligned(writer: Any, reader: Any) -> Any:
    """Return the writer's schema with the reader's full names of types, and the reader's names of aliased fields.

    Types match by name without namespace, or by an alias; the two root records always match. Raises UsageError for
    an invalid schema.
    """
    return _Alignment(Schema.of(writer), Schema.of(reader)).schema()


_OF_BYTES = frozenset({"type", "symbols", "size", "fields", "logicalType", "precision", "scale"})
"""The keys to keep: a parser would refuse an invalid default or order of the writer's."""


class _Alignment:
    def __init__(self, writer: Schema, reader: Schema) -> None:
        self._writer, self._reader = writer, reader
        self._defined: set[str] = set()
        """Types of the writer that are already defined in the result; further uses are by name."""
        self._theirs: dict[str, str] = {writer.root: reader.root}
        for name, type_ in writer.named.items():
            paired = (one for one, its in reader.named.items() if same_name(type_, its))
            self._theirs.setdefault(name, next((one for one in paired if one not in self._theirs.values()), name))

    def schema(self) -> Any:
        return self._of(self._writer.root)

    def _of(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._of(one) for one in node]
        if isinstance(node, dict):
            return {key: self._of(one) if key in ("items", "values") else one for key, one in node.items()}
        if node not in self._writer.named:
            return node
        if node in self._defined:
            return self._theirs[node]
        self._defined.add(node)
        return self._named(node)

    def _named(self, name: str) -> dict[str, Any]:
        made = {one: what for one, what in self._writer.named[name].items() if one in _OF_BYTES}
        namespace, _, short = self._theirs[name].rpartition(".")
        made |= {"name": short, "namespace": namespace}
        if made["type"] == "record":
            renamed = self._renamed(name)
            made["fields"] = [
                {"name": renamed.get(one["name"], one["name"]), "type": self._of(one["type"])}
                for one in made["fields"]
            ]
        return made

    def _renamed(self, name: str) -> dict[str, str]:
        theirs = self._reader.named.get(self._theirs[name])
        if theirs is None or theirs["type"] != "record":
            return {}
        written = [one["name"] for one in self._writer.named[name]["fields"]]
        found: dict[str, str] = {}
        for one in theirs["fields"]:
            if one["name"] in written:
                continue
            source = next((alias for alias in one.get("aliases", []) if alias in written), None)
            if source is not None:
                found[source] = one["name"]
        return found
