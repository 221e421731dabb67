"""Avro events as the driver reads them: resolved to the job's schema, or the rule that a record breaks."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, NamedTuple

import fastavro
from fastavro.schema import parse_schema

from cutwater.adapters.avro.codec import DAMAGE, HEADER_BYTES
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.formats import (
    AVRO,
    CONFLUENT_HEADER_BYTES,
    DAMAGED,
    NO_SUCH_SCHEMA,
    NOT_FRAMED,
    WriterSchema,
    foreign,
    framed,
)
from cutwater.core.events.json_events import KEY_SHOWN
from cutwater.core.events.json_records import unscaled
from cutwater.core.events.rejection import NO_VALUE, NO_VALUE_RULE, UNDECODABLE, UNKNOWN_SCHEMA, Flaw
from cutwater.core.events.schema_alignment import aligned
from cutwater.core.events.schema_bounds import unroll_recursion
from cutwater.core.events.schema_compatibility import refusal
from cutwater.core.job.field_paths import bare, type_of
from cutwater.core.job.measures import FieldType

_NO_EVENT = (*DAMAGE, fastavro.read.SchemaResolutionError)


class _Writer(NamedTuple):
    refused: str | None
    """The reason why all events of the schema are rejected."""
    parsed: Any


class AvroReader:
    """Reads events of the `known` schemas, framed as `kind`, with a job's `schema`."""

    def __init__(self, kind: str, schema: dict[str, Any], known: Iterable[WriterSchema]) -> None:
        self._kind = kind
        self._header_bytes = HEADER_BYTES if kind == AVRO else CONFLUENT_HEADER_BYTES
        self._schema = Schema.of(schema)
        fields = self._schema.named[self._schema.root]["fields"]
        self._nodes = {one["name"]: one["type"] for one in fields}
        self._reader = parse_schema(_bare(schema))
        self._writers = {one.header: _writer(one, schema) for one in known}

    def read(self, value: bytes | None) -> dict[str, Any] | Flaw:
        """Decode an event, with times in microseconds since 1970 and surrogates for invalid UTF-8."""
        if value is None:
            return Flaw(NO_VALUE, NO_VALUE_RULE)
        writer = self._writers.get(value[: self._header_bytes])
        if writer is None:
            return self._of_another(value)
        if writer.refused:
            return Flaw(UNDECODABLE, writer.refused)
        body = io.BytesIO(value[self._header_bytes :])
        try:
            event: Any = fastavro.schemaless_reader(
                body, writer.parsed, self._reader, handle_unicode_errors="surrogateescape"
            )
        except _NO_EVENT:
            return Flaw(UNDECODABLE, DAMAGED)
        return Flaw(UNDECODABLE, DAMAGED) if body.read(1) else self._in_types(event)

    def _in_types(self, read: dict[str, Any]) -> dict[str, Any] | Flaw:
        try:
            return {name: _converted(read[name], self._schema, node, name) for name, node in self._nodes.items()}
        except _BeyondError as error:
            return Flaw(UNDECODABLE, f"is beyond {error.of}", error.path)

    def _of_another(self, value: bytes) -> Flaw:
        if other := foreign(self._kind, value):
            return Flaw(UNDECODABLE, other)
        if framed(self._kind, value):
            return Flaw(UNKNOWN_SCHEMA, NO_SUCH_SCHEMA)
        return Flaw(UNDECODABLE, NOT_FRAMED.format(self._kind))


def _writer(one: WriterSchema, schema: dict[str, Any]) -> _Writer:
    if refused := refusal(one, schema):
        return _Writer(refused, None)
    found = unroll_recursion(aligned(one.schema, schema))
    named: dict[str, Any] = {}
    for type_ in found.types:
        parse_schema(_bare(type_), named)
    return _Writer(None, parse_schema(_bare(found.schema), named))


def _bare(schema: Any) -> Any:
    # Logical types are removed: Python lacks some times, and a decimal would be rounded.
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if isinstance(schema, dict):
        return {name: _bare(one) for name, one in schema.items() if name != "logicalType"}
    return schema


class _BeyondError(ValueError):
    """A decimal has more digits than its type."""

    def __init__(self, of: FieldType, path: str) -> None:
        super().__init__(path)
        self.of, self.path = of, path


def _converted(value: Any, schema: Schema, node: Any, path: str) -> Any:
    """Return a value in the form of all readers: times in microseconds, decimals as such, bytes as bytes.

    A default is as the schema has it: bytes are a text of code points up to 255, NaN is a text, and a record may
    lack fields. Raises _BeyondError with the path of a decimal that does not fit its type.
    """
    inner = bare(node)
    if value is None or isinstance(inner, list):
        return value
    type_ = schema.type_of(inner)
    kind = type_["type"]
    if kind == "record":
        return {
            one["name"]: _converted(
                value.get(one["name"], one.get("default")), schema, one["type"], f"{path}.{one['name']}"
            )
            for one in type_["fields"]
        }
    if kind == "array":
        return [_converted(one, schema, type_["items"], f"{path}[{at}]") for at, one in enumerate(value)]
    if kind == "map":
        return {
            name: _converted(one, schema, type_["values"], f"{path}['{name[:KEY_SHOWN]}']")
            for name, one in value.items()
        }
    return _converted_plain(value, type_of(schema, inner), path)


def _converted_plain(value: Any, of: FieldType, path: str) -> Any:
    if of.name == "timestamp-millis":
        return value * 1_000
    if of.name in ("float", "double"):
        return float(value)
    if of.name in ("decimal", "uuid", "bytes", "fixed") and isinstance(value, str):
        value = value.encode("latin-1")
    if of.name != "decimal":
        return value
    made = unscaled(value, of.scale)
    if made.copy_abs() >= 10 ** (of.precision - of.scale):
        raise _BeyondError(of, path)
    return made
