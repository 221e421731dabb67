"""Schema compatibility: whether a reader with one Avro schema can read records of another schema.

Each obstacle is one line that starts with the path of the field: `legs[].airport: …`. Source: the Avro
specification, "Schema Resolution". One rule is stricter: a logical type, a decimal's precision or its scale must
not change. Avro would read the old bytes as other values, and CRC-64-AVRO covers none of the three.

`incompatibilities` and `obstacles` check a step of a schema's evolution. `reading` checks existing events, and
accepts more: a decimal with other digits, a record with another name. If only some values cannot be read, only
the events that hold them are rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import NAMED, Schema
from cutwater.core.events.formats import WriterSchema
from cutwater.core.events.schema_bounds import endless

BACKWARD, FORWARD, FULL = "backward", "forward", "full"
RULES = (BACKWARD, FORWARD, FULL)
_PROMOTIONS: Mapping[str, frozenset[str]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_LOGICAL = ("logicalType", "precision", "scale")


def incompatibilities(old: Any, new: Any, rule: str = BACKWARD) -> list[str]:
    """Return why `new` cannot follow `old` under a rule; empty if it can.

    backward: readers of the new schema read old records; forward: readers of the old one read new records;
    full: both. Raises UsageError for an unknown rule or an invalid schema.
    """
    if rule not in RULES:
        raise UsageError(f"'{rule}' is not a compatibility rule; allowed: {', '.join(RULES)}")
    found = []
    if rule in (BACKWARD, FULL):
        found += [f"{one} (new reader, old record)" for one in obstacles(old, new)]
    if rule in (FORWARD, FULL):
        found += [f"{one} (old reader, new record)" for one in obstacles(new, old)]
    return found


def obstacles(writer: Any, reader: Any) -> list[str]:
    """Return why a reader with schema `reader` cannot read every record of schema `writer`."""
    resolution = _Resolution(Schema.of(writer), Schema.of(reader))
    return resolution.between(resolution.writer.root, resolution.reader.root, "")


@dataclass(frozen=True)
class Reading:
    """The problems of reading events of one schema with another one."""

    refused: tuple[str, ...] = ()
    """Avro would silently read other values, or reading has no bound. Every event of the schema is rejected."""
    unfit: tuple[str, ...] = ()
    """Avro cannot read some values. The events that hold them are rejected."""

    @property
    def problems(self) -> tuple[str, ...]:
        return (*self.refused, *self.unfit)


def reading(writer: Any, reader: Any) -> Reading:
    """Return the problems of reading events of `writer` with `reader`. Raises UsageError for an invalid schema."""
    resolution = _Resolution(Schema.of(writer), Schema.of(reader), evolves=False)
    found = resolution.between(resolution.writer.root, resolution.reader.root, "")
    otherwise = [one for one in found if one.endswith(OTHERWISE)]
    return Reading((*otherwise, *endless(resolution.writer)), tuple(one for one in found if one not in otherwise))


def refusal(writer: WriterSchema, reader: Any) -> str:
    """Return why every event of a schema is rejected; empty if they are decoded one by one."""
    why = writer.problem or "; ".join(reading(writer.schema, reader).refused)
    return f"is of schema {writer.name}: {why}" if why else ""


OTHERWISE = "old bytes would be read as other values"


@dataclass
class _Resolution:
    writer: Schema
    reader: Schema
    evolves: bool = True
    """Whether this is a step of a schema's evolution; else existing events are read as far as possible."""
    _begun: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of records that are already being compared, for recursive types."""

    def between(self, writer: Any, reader: Any, path: str) -> list[str]:
        if isinstance(writer, list):
            return [one for branch in writer for one in self.between(branch, reader, path)]
        if isinstance(reader, list):
            branch = self._branch(writer, reader)
            if branch is None:
                return [_problem(path, f"was {self._text(writer)}, which none of {self._union(reader)} can read")]
            return self.between(writer, branch, path)
        return self._types(self.writer.type_of(writer), self.reader.type_of(reader), path)

    def _branch(self, writer: Any, reader: list[Any]) -> Any:
        """Return the reader's branch for the writer's type: the same type if there is one, else a wider type."""
        mine = self.writer.type_of(writer)
        kinds = [(branch, self.reader.type_of(branch)) for branch in reader]
        for branch, theirs in kinds:
            if theirs["type"] == mine["type"] and (theirs["type"] not in NAMED or same_name(mine, theirs)):
                return branch
        wider = _PROMOTIONS.get(mine["type"], frozenset())
        return next((branch for branch, theirs in kinds if theirs["type"] in wider), None)

    def _types(self, writer: dict[str, Any], reader: dict[str, Any], path: str) -> list[str]:
        obstacle = _obstacle(writer, reader, self.evolves)
        if obstacle is not None:
            return [_problem(path, obstacle)]
        kind = writer["type"]
        if kind == "record":
            return self._records(writer, reader, path)
        if kind == "array":
            return self.between(writer["items"], reader["items"], f"{path}[]")
        return self.between(writer["values"], reader["values"], f"{path}{{}}") if kind == "map" else []

    def _records(self, writer: dict[str, Any], reader: dict[str, Any], path: str) -> list[str]:
        pair = (writer["name"], reader["name"])
        if pair in self._begun:
            return []
        self._begun.add(pair)
        written = {one["name"]: one for one in writer["fields"]}
        found = []
        for one in reader["fields"]:
            place = f"{path}.{one['name']}" if path else one["name"]
            names = [one["name"], *one.get("aliases", [])]
            source = next((written[name] for name in names if name in written), None)
            if source is not None:
                found += self.between(source["type"], one["type"], place)
            elif "default" not in one:
                found.append(_problem(place, "is not in every record: give it a default, or an alias"))
        return found

    def _text(self, node: Any) -> str:
        return _kind(self.writer.type_of(node))

    def _union(self, branches: list[Any]) -> str:
        return f"[{', '.join(_kind(self.reader.type_of(one)) for one in branches)}]"


def _obstacle(writer: dict[str, Any], reader: dict[str, Any], evolves: bool) -> str | None:
    """Return the obstacle between two types themselves, apart from the types that they contain."""
    was, now = writer["type"], reader["type"]
    if was != now and now not in _PROMOTIONS.get(was, frozenset()):
        return f"was {_kind(writer)} and is {_kind(reader)}: {was} cannot be read as {now}"
    same = [writer.get(one) for one in _LOGICAL] == [reader.get(one) for one in _LOGICAL]
    if not same and (evolves or not _only_digits(writer, reader)):
        return f"was {_kind(writer)} and is {_kind(reader)}: {OTHERWISE}"
    # Avro's readers compare the name of a record only within a union.
    if was in NAMED and not same_name(writer, reader) and (evolves or was != "record"):
        return f"{was} {writer['name']} is now {reader['name']}: keep the name, or make it an alias"
    if was == "fixed" and writer["size"] != reader["size"]:
        return f"was {writer['size']} bytes and is {reader['size']}"
    return _lost_symbols(writer, reader) if was == "enum" else None


def _only_digits(writer: dict[str, Any], reader: dict[str, Any]) -> bool:
    """Return whether two decimals differ in precision alone; values that do not fit are found one by one."""
    decimals = writer.get("logicalType") == reader.get("logicalType") == "decimal"
    return decimals and writer.get("scale", 0) == reader.get("scale", 0)


def _lost_symbols(writer: dict[str, Any], reader: dict[str, Any]) -> str | None:
    lost = [one for one in writer["symbols"] if one not in reader["symbols"]]
    if not lost or reader.get("default") in reader["symbols"]:
        return None
    return f"the symbols {', '.join(lost)} are not known and enum {reader['name']} has no default"


def same_name(writer: dict[str, Any], reader: dict[str, Any]) -> bool:
    """Return whether Avro matches two types: the same name without namespace, or an alias."""
    short = [one["name"].rpartition(".")[2] for one in (writer, reader)]
    return short[0] == short[1] or writer["name"] in reader["aliases"]


def _kind(type_: dict[str, Any]) -> str:
    logical = type_.get("logicalType")
    if logical == "decimal":
        return f"decimal({type_.get('precision')}, {type_.get('scale', 0)})"
    if type_["type"] in NAMED:
        return f"{type_['type']} {type_['name']}"
    return f"{type_['type']} ({logical})" if logical else str(type_["type"])


def _problem(path: str, what: str) -> str:
    return f"{path or '(top)'}: {what}"
