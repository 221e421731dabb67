"""Can a reader with one Avro schema read what another schema wrote? Avro's resolution rules, as pure values.

Each obstacle is one line that begins with the path of the field: `legs[].airport: …`. Source: the Avro
specification, "Schema Resolution". One rule is stricter: a logical type, a decimal's precision or its scale must
not change. Avro would read the old bytes as other values, and CRC-64-AVRO sees none of the three.

`incompatibilities` and `obstacles` judge a step of a schema's evolution. `reading` says what becomes of events
that stand there, by whatever schema. More can be read than should be written: a decimal with other digits, a
record by another name. Where only some values are in the way, events are rejected for their own values.
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
    """What keeps `new` from following `old` under a rule; empty when nothing does.

    backward: readers of the new schema read old records; forward: readers of the old one read new records;
    full: both. Raises UsageError for a rule or schema that is none.
    """
    if rule not in RULES:
        raise UsageError(f"'{rule}' is no rule of compatibility; allowed: {', '.join(RULES)}")
    found = []
    if rule in (BACKWARD, FULL):
        found += [f"{one} (new reader, old record)" for one in obstacles(old, new)]
    if rule in (FORWARD, FULL):
        found += [f"{one} (old reader, new record)" for one in obstacles(new, old)]
    return found


def obstacles(writer: Any, reader: Any) -> list[str]:
    """What keeps a reader of schema `reader` from reading every record of schema `writer`."""
    resolution = _Resolution(Schema.of(writer), Schema.of(reader))
    return resolution.between(resolution.writer.root, resolution.reader.root, "")


@dataclass(frozen=True)
class Reading:
    """What becomes of the events of one schema, read by another one."""

    refused: tuple[str, ...] = ()
    """What Avro would read as other values, and nobody would know; or what has no end. No event of the schema is
    taken."""
    unfit: tuple[str, ...] = ()
    """What Avro does not read: events that hold it are rejected, one by one; all of them where all do."""

    @property
    def problems(self) -> tuple[str, ...]:
        return (*self.refused, *self.unfit)


def reading(writer: Any, reader: Any) -> Reading:
    """What becomes of events that `writer` wrote, read by `reader`. Raises UsageError for no schema."""
    resolution = _Resolution(Schema.of(writer), Schema.of(reader), evolves=False)
    found = resolution.between(resolution.writer.root, resolution.reader.root, "")
    otherwise = [one for one in found if one.endswith(OTHERWISE)]
    return Reading((*otherwise, *endless(resolution.writer)), tuple(one for one in found if one not in otherwise))


def refusal(writer: WriterSchema, reader: Any) -> str:
    """Why no event of a schema is taken; empty where they are read one by one."""
    why = writer.problem or "; ".join(reading(writer.schema, reader).refused)
    return f"is of schema {writer.name}: {why}" if why else ""


OTHERWISE = "old bytes would be read as other values"


@dataclass
class _Resolution:
    writer: Schema
    reader: Schema
    evolves: bool = True
    """Is this a step of a schema's evolution? Else what stands there is to be read, as far as it goes."""
    _begun: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of records under way: one that holds itself is looked at once."""

    def between(self, writer: Any, reader: Any, path: str) -> list[str]:
        """Obstacles between two types, either of which may be a union."""
        if isinstance(writer, list):
            return [one for branch in writer for one in self.between(branch, reader, path)]
        if isinstance(reader, list):
            branch = self._branch(writer, reader)
            if branch is None:
                return [_say(path, f"was {self._text(writer)}, which none of {self._union(reader)} can take")]
            return self.between(writer, branch, path)
        return self._types(self.writer.type_of(writer), self.reader.type_of(reader), path)

    def _branch(self, writer: Any, reader: list[Any]) -> Any:
        """The reader's branch that takes the writer's type: one of the same type before one of a wider type."""
        mine = self.writer.type_of(writer)
        kinds = [(branch, self.reader.type_of(branch)) for branch in reader]
        for branch, theirs in kinds:
            if theirs["type"] == mine["type"] and (theirs["type"] not in NAMED or same_name(mine, theirs)):
                return branch
        wider = _PROMOTIONS.get(mine["type"], frozenset())
        return next((branch for branch, theirs in kinds if theirs["type"] in wider), None)

    def _types(self, writer: dict[str, Any], reader: dict[str, Any], path: str) -> list[str]:
        """Obstacles between two types that are no unions."""
        obstacle = _obstacle(writer, reader, self.evolves)
        if obstacle is not None:
            return [_say(path, obstacle)]
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
                found.append(_say(place, "is not in every record: give it a default, or an alias"))
        return found

    def _text(self, node: Any) -> str:
        return _kind(self.writer.type_of(node))

    def _union(self, branches: list[Any]) -> str:
        return f"[{', '.join(_kind(self.reader.type_of(one)) for one in branches)}]"


def _obstacle(writer: dict[str, Any], reader: dict[str, Any], evolves: bool) -> str | None:
    """What two types are in the way of themselves, whatever they hold."""
    was, now = writer["type"], reader["type"]
    if was != now and now not in _PROMOTIONS.get(was, frozenset()):
        return f"was {_kind(writer)} and is {_kind(reader)}: {was} cannot be read as {now}"
    same = [writer.get(one) for one in _LOGICAL] == [reader.get(one) for one in _LOGICAL]
    if not same and (evolves or not _only_digits(writer, reader)):
        return f"was {_kind(writer)} and is {_kind(reader)}: {OTHERWISE}"
    # A record by another name has the same fields: Avro's readers do not ask for it, but in a union.
    if was in NAMED and not same_name(writer, reader) and (evolves or was != "record"):
        return f"{was} {writer['name']} is now {reader['name']}: keep the name, or make it an alias"
    if was == "fixed" and writer["size"] != reader["size"]:
        return f"was {writer['size']} bytes and is {reader['size']}"
    return _lost_symbols(writer, reader) if was == "enum" else None


def _only_digits(writer: dict[str, Any], reader: dict[str, Any]) -> bool:
    """Do two decimals differ in their digits alone? What the reader's type does not hold is found by value."""
    decimals = writer.get("logicalType") == reader.get("logicalType") == "decimal"
    return decimals and writer.get("scale", 0) == reader.get("scale", 0)


def _lost_symbols(writer: dict[str, Any], reader: dict[str, Any]) -> str | None:
    lost = [one for one in writer["symbols"] if one not in reader["symbols"]]
    if not lost or reader.get("default") in reader["symbols"]:
        return None
    return f"the symbols {', '.join(lost)} are not known and enum {reader['name']} has no default"


def same_name(writer: dict[str, Any], reader: dict[str, Any]) -> bool:
    """Are these one type by Avro's rule: the same name without namespace, or an alias?"""
    short = [one["name"].rpartition(".")[2] for one in (writer, reader)]
    return short[0] == short[1] or writer["name"] in reader["aliases"]


def _kind(type_: dict[str, Any]) -> str:
    """A type in words."""
    logical = type_.get("logicalType")
    if logical == "decimal":
        return f"decimal({type_.get('precision')}, {type_.get('scale', 0)})"
    if type_["type"] in NAMED:
        return f"{type_['type']} {type_['name']}"
    return f"{type_['type']} ({logical})" if logical else str(type_["type"])


def _say(path: str, what: str) -> str:
    return f"{path or '(top)'}: {what}"
