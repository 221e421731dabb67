"""Avro with single-object encoding: two marker bytes, the schema's CRC-64-AVRO, the body.

The fingerprint lets one topic carry several record types, and tells a reader exactly which schema wrote.
Source of the format: the Avro specification, "Single object encoding".
"""

from __future__ import annotations

import io
import json
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import fastavro
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form
from fastavro.validation import ValidationError

from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.formats import SINGLE_OBJECT_HEADER_BYTES, SINGLE_OBJECT_MARKER
from cutwater.core.job.schema_rules import mistakes, unreadable

MARKER = SINGLE_OBJECT_MARKER
HEADER_BYTES = SINGLE_OBJECT_HEADER_BYTES

# What fastavro lets through from bytes and schemas that are not Avro; a moment after year 9999 overflows.
DAMAGE = (
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    StopIteration,
    MemoryError,
    RecursionError,
)
_NO_SCHEMA = (*DAMAGE, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType)


def crc64(schema: dict[str, Any] | str) -> bytes:
    """The 8 fingerprint bytes as they stand in the header (little endian)."""
    # Without the round trip fastavro's own markers of a parsed schema would enter the canonical form.
    canonical = to_parsing_canonical_form(json.loads(json.dumps(schema)))
    return bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))


def meaning(text: str) -> str | None:
    """The fingerprint, for people, of a schema as a registry holds it; None where nobody could read by it."""
    try:
        return crc64(json.loads(text)).hex()
    except _NO_SCHEMA:
        return None


@lru_cache(maxsize=256)
def _known(schema: str) -> tuple[bytes, Any]:
    return MARKER + crc64(json.loads(schema)), parse_schema(json.loads(schema))


class Codec:
    """Encodes and decodes the records of one schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        # A schema is parsed once in a process, however many codecs ask.
        self.header, self._parsed = _known(json.dumps(schema))

    def encode(self, record: dict[str, Any]) -> bytes:
        """Raises UsageError when the record does not fit the schema, naming the field."""
        return self.header + self.body(record)

    def body(self, record: dict[str, Any]) -> bytes:
        """The record without the header; raises UsageError as `encode` does."""
        body = io.BytesIO()
        try:
            # The writer would put a number beyond 32 bits into an int field without a word.
            fastavro.validate(record, self._parsed, strict=False)
            fastavro.schemaless_writer(body, self._parsed, record, strict_allow_default=True)
        except (ValidationError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            reason = " ".join(str(error).split())
            raise UsageError(f"the record does not fit schema {self.schema.get('name')}: {reason}") from error
        return body.getvalue()

    def decode(self, data: bytes) -> dict[str, Any]:
        """Raises UsageError when the bytes were not written with this schema, are cut short or too long."""
        if data[:HEADER_BYTES] != self.header:
            raise UsageError(
                f"bytes {data[:HEADER_BYTES].hex()}… are not of schema {self.schema.get('name')} "
                f"({self.header.hex()})"
            )
        return self.decode_body(data, HEADER_BYTES)

    def decode_body(self, data: bytes, at: int) -> dict[str, Any]:
        """The record that fills `data` from `at` to its end; raises UsageError where it does not."""
        body = io.BytesIO(data[at:])
        try:
            record: dict[str, Any] = fastavro.schemaless_reader(body, self._parsed, None)
        except DAMAGE as error:
            raise UsageError(f"a record of schema {self.schema.get('name')} is damaged: {error!r}") from error
        if body.read(1):
            raise UsageError(
                f"a record of schema {self.schema.get('name')} is damaged: {len(data)} bytes, and it ends before"
            )
        return record


def schema_folder() -> Path:
    """Where the schemas of the protocol are: inside the wheel, or at the root of a clone."""
    packaged = Path(str(resources.files("cutwater"))) / "_schemas"
    return packaged if packaged.is_dir() else Path(str(resources.files("cutwater"))).parents[1] / "schemas"


def load_schema(path: Path, plain_names: bool = True, own: bool = False) -> dict[str, Any]:
    """Read an .avsc file; raises UsageError naming the file when it is missing, or as `check_schema` does."""
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such schema file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except _NO_SCHEMA as error:
        raise UsageError(f"{path}: not an Avro schema: {error!r:.300}") from error
    return check_schema(schema, str(path), plain_names, own)


def check_schema(schema: Any, origin: str, plain_names: bool = True, own: bool = False) -> dict[str, Any]:
    """The schema itself; raises UsageError naming its origin, and all mistakes, when it is no record schema.

    `plain_names`: its fields must have names that Avro allows; those of JSON events may have others. `own`: events
    are to be read as it, so that Spark must have types for it.
    """
    try:
        found = mistakes(Schema.of(schema), plain_names)
        found += unreadable(schema) if own else []
        if not found:
            parse_schema(json.loads(json.dumps(schema)))
    except UsageError as error:
        raise UsageError(f"{origin}: {error}") from None
    except _NO_SCHEMA as error:
        raise UsageError(f"{origin}: not an Avro schema: {error!r:.300}") from error
    if found:
        raise UsageError(f"{origin}: no schema to read by: {'; '.join(dict.fromkeys(found))}")
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise UsageError(f"{origin}: the schema of an event must be a record")
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field["name"], str) for field in fields):
        raise UsageError(f"{origin}: 'fields' must be a list of fields, each with a name and a type")
    return schema


@cache
def protocol_codec(name: str) -> Codec:
    """The codec of one of the protocol's own schemas, by file name without ending."""
    return Codec(load_schema(schema_folder() / f"{name}.avsc"))
