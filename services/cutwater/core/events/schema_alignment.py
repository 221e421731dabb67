"""A writer's schema in the names of its reader's.

Names are no part of an event's bytes, so a schema may be given others. Avro's readers look for a field's alias
only in records of the same full name: of a writer in another namespace a renamed field would be read as its
default, without a word.
"""

from __future__ import annotations

from typing import Any

from cutwater.core.events.avro_types import Schema
from cutwater.core.events.schema_compatibility import same_name


def aligned(writer: Any, reader: Any) -> Any:
    """The writer's schema with the full names of the reader's types, and of fields that it knows by an alias.

    Types are paired by their names without namespace, or by an alias; the topmost two in any case. Both are
    schemas of records. Raises UsageError for a schema that is none.
    """
    return _Alignment(Schema.of(writer), Schema.of(reader)).schema()


_OF_BYTES = frozenset({"type", "symbols", "size", "fields", "logicalType", "precision", "scale"})
"""A writer's default that is none, or its order, would be in the way of a parser."""


class _Alignment:
    def __init__(self, writer: Schema, reader: Schema) -> None:
        self._writer, self._reader = writer, reader
        self._told: set[str] = set()
        """Writer's types that stand in the schema already: a name is enough from then on."""
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
        if node in self._told:
            return self._theirs[node]
        self._told.add(node)
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
        """The reader's names of a record's fields, by the writer's, where an alias joins them."""
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
