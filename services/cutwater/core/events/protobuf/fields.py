"""The fields of a message, read from the job's event schema.

The event schema is Avro, as of every format: it says which values an event has. Beside each field it says how
Protobuf writes it, in the attribute `protobuf`, which Avro ignores. `cutwater.core.events.protobuf.descriptors`
makes it of a descriptor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from cutwater.core.events.avro_types import Schema
from cutwater.core.events.json_records import unscaled
from cutwater.core.events.protobuf.wire import FIXED32, FIXED64, LENGTH, VARINT

NOTE = "protobuf"
"""The attribute of a field, and of an enum: the numbers of its symbols."""
MESSAGE, TIMESTAMP, WRAPPER, MAP, ENUM = "message", "timestamp", "wrapper", "map", "enum"
KINDS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", ENUM), VARINT),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), FIXED64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), FIXED32),
    **dict.fromkeys(("string", "bytes", MESSAGE, TIMESTAMP, WRAPPER, MAP), LENGTH),
}
"""How values of a type are written."""
ZEROS: dict[str, Any] = {"string": "", "bytes": b"", "bool": False, "float": 0.0, "double": 0.0}
"""What a field without presence is if it is not written; of other types 0."""
UINT64_DIGITS = 20

NO_MESSAGE = "is no Protobuf message: damaged, truncated, or too many fields"
OTHER_TYPE = "is not written as {}"
NO_SYMBOL = "is a number that the enum does not have"
NO_LIST = "is no list of at most {:,} elements"
NO_TIME = "is no time of the years 1 to 9999"
NOT_THERE = "is missing, and required"
OTHER_MESSAGE = "is another message of its schema than the job's"
"""Rules that a record or field breaks."""
SECONDS, NANOS_MAX = (-62_135_596_800, 253_402_300_799), 999_999_999
"""The years 1 to 9999."""


@dataclass(frozen=True)
class ProtoField:
    name: str
    number: int
    type: str
    """One of KINDS."""
    repeated: bool = False
    has_default: bool = True
    default: Any = None
    """The value if the field is not written."""
    symbols: tuple[tuple[int, str], ...] = ()
    """Of an enum: numbers and names."""
    fields: tuple[ProtoField, ...] = ()
    """Of a message; of a map key and value; of a timestamp seconds and nanos; of a wrapper the value."""
    members: tuple[int, ...] = ()
    """The numbers of its oneof: of these the last one written counts."""

    @property
    def kind(self) -> int:
        """How one value is written."""
        return KINDS[self.type]

    @property
    def shown(self) -> str:
        """The type in messages to users."""
        return MESSAGE if self.fields else self.type

    @property
    def is_packable(self) -> bool:
        return self.repeated and self.kind != LENGTH


def protobuf_fields(schema: Mapping[str, Any]) -> tuple[ProtoField, ...]:
    """Return the fields of an event schema that was made of a descriptor."""
    found = Schema.of(schema)
    return _fields(found, found.named[found.root])


def message_name(schema: Mapping[str, Any]) -> str:
    """Return the full name of the message that an event schema was made of."""
    return f"{schema['namespace']}.{schema['name']}" if schema.get("namespace") else str(schema["name"])


def _fields(schema: Schema, record: Mapping[str, Any]) -> tuple[ProtoField, ...]:
    return tuple(_field(schema, one) for one in record["fields"])


def _field(schema: Schema, declared: Mapping[str, Any]) -> ProtoField:
    note, avro = declared[NOTE], declared["type"]
    node = schema.type_of(next(one for one in avro if one != "null") if isinstance(avro, list) else avro)
    repeated = node["type"] == "array"
    held = schema.type_of(node["items"]) if repeated else node
    return ProtoField(
        declared["name"],
        note["number"],
        note["type"],
        repeated,
        "default" in declared,
        _default(note["type"], declared.get("default")),
        _symbols(held),
        _inner(schema, note, held),
        tuple(note.get("members", ())),
    )


def _inner(schema: Schema, note: Mapping[str, Any], held: Mapping[str, Any]) -> tuple[ProtoField, ...]:
    kind = note["type"]
    if kind == MESSAGE:
        return _fields(schema, held)
    if kind == TIMESTAMP:
        return ProtoField("seconds", 1, "int64", default=0), ProtoField("nanos", 2, "int32", default=0)
    if kind == WRAPPER:
        return (ProtoField("value", 1, note["value"], default=zero(note["value"])),)
    if kind != MAP:
        return ()
    value, of = schema.type_of(held["values"]), note["value"]
    symbols = _symbols(value)
    default = symbols[0][1] if symbols else zero(of)
    fields = _fields(schema, value) if of == MESSAGE else ()
    if of in (TIMESTAMP, WRAPPER):
        fields = _inner(schema, {"type": of, "value": note.get("wrapped")}, value)
    key = ProtoField("key", 1, note["key"], default=zero(note["key"]))
    return key, ProtoField("value", 2, of, default=default, symbols=symbols, fields=fields)


def _symbols(node: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    return tuple(zip(node[NOTE], node["symbols"], strict=True)) if node["type"] == "enum" else ()


def zero(kind: str) -> Any:
    """Return the value of a type that is not written."""
    if kind in (MESSAGE, TIMESTAMP, WRAPPER):
        return None
    return Decimal(0) if kind in ("uint64", "fixed64") else ZEROS.get(kind, 0)


def _default(kind: str, given: Any) -> Any:
    # An Avro schema has bytes and decimals as text of code points up to 255.
    if not isinstance(given, str) or kind not in ("bytes", "uint64", "fixed64"):
        return given
    raw = given.encode("latin-1")
    return raw if kind == "bytes" else unscaled(raw, 0)
