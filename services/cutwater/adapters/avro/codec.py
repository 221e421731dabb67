"""Avro with single-object encoding: two marker bytes, the schema's CRC-64-AVRO, the body.

The fingerprint lets one topic carry several record types, and identifies the schema of each record.
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

# Errors of fastavro for invalid bytes and schemas; a time after year 9999 overflows.
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
    """Return the 8 fingerprint bytes as in the header (little endian)."""
    return _crc64(json.dumps(schema))


@lru_cache(maxsize=256)  # each milestone is compared with the job's schema, and fastavro's loop takes 1 ms
def _crc64(schema: str) -> bytes:
    # Without the round trip fastavro's markers of a parsed schema would enter the canonical form.
    canonical = to_parsing_canonical_form(json.loads(schema))
    return bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))


def meaning(text: str) -> str | None:
    """Return the fingerprint in hexadecimal of a registry's schema; None for an invalid one."""
    try:
        return crc64(json.loads(text)).hex()
    except _NO_SCHEMA:
        return None


@lru_cache(maxsize=256)
def _header_and_parser(schema: str) -> tuple[bytes, Any]:
    return MARKER + _crc64(schema), parse_schema(json.loads(schema))


class Codec:
    """Encodes and decodes the records of one schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        # A schema is parsed once per process.
        self.header, self._parsed = _header_and_parser(json.dumps(schema))

    def encode(self, record: dict[str, Any]) -> bytes:
        """Encode a record. Raises UsageError naming the field if the record does not fit the schema."""
        return self.header + self.body(record)

    def body(self, record: dict[str, Any]) -> bytes:
        """Encode a record without the header; raises UsageError as `encode` does."""
        body = io.BytesIO()
        try:
            # The writer would silently put a number beyond 32 bits into an int field.
            fastavro.validate(record, self._parsed, strict=False)
            fastavro.schemaless_writer(body, self._parsed, record, strict_allow_default=True)
        except (ValidationError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            reason = " ".join(str(error).split())
            raise UsageError(f"the record does not fit schema {self.schema.get('name')}: {reason}") from error
        return body.getvalue()

    def encode_body(self, record: dict[str, Any]) -> bytes:
        """Encode a record without the header that is known to fit, in a third of the time."""
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._parsed, record)
        return body.getvalue()

    def decode(self, data: bytes) -> dict[str, Any]:
        """Decode a record. Raises UsageError for another schema, and for truncated or too many bytes."""
        if data[:HEADER_BYTES] != self.header:
            raise UsageError(
                f"bytes {data[:HEADER_BYTES].hex()}… are not of schema {self.schema.get('name')} "
                f"({self.header.hex()})"
            )
        return self.decode_body(data, HEADER_BYTES)

    def decode_body(self, data: bytes, at: int) -> dict[str, Any]:
        """Decode the record that fills `data` from `at` to its end; raises UsageError if there is none."""
        body = io.BytesIO(data[at:])
        try:
            record: dict[str, Any] = fastavro.schemaless_reader(body, self._parsed, None)
        except DAMAGE as error:
            # The library's text names an object of its own.
            why = "its bytes end too early" if isinstance(error, EOFError) else repr(error)
            raise UsageError(f"a record of schema {self.schema.get('name')} is damaged: {why}") from error
        if body.read(1):
            raise UsageError(
                f"a record of schema {self.schema.get('name')} is damaged: it ends before its {len(data)} bytes do"
            )
        return record


def without_dates(schema: Any) -> Any:
    """Return the schema with times as numbers, which have the same bytes."""
    if isinstance(schema, list):
        return [without_dates(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if str(schema.get("logicalType", "")).startswith("timestamp"):
        return schema["type"]
    return {name: without_dates(one) if name in ("type", "fields") else one for name, one in schema.items()}


def schema_folder() -> Path:
    """Return the folder of the protocol's schemas: inside the wheel, or at the root of a clone."""
    packaged = Path(str(resources.files("cutwater"))) / "_schemas"
    return packaged if packaged.is_dir() else Path(str(resources.files("cutwater"))).parents[1] / "schemas"


def load_schema(path: Path, plain_names: bool = True, own: bool = False) -> dict[str, Any]:
    """Read an .avsc file; raises UsageError naming a missing file, or as `check_schema` does."""
    try:
        schema = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such schema file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except _NO_SCHEMA as error:
        raise UsageError(f"{path}: not an Avro schema: {error!r:.300}") from error
    return check_schema(schema, str(path), plain_names, own)


def check_schema(schema: Any, origin: str, plain_names: bool = True, own: bool = False) -> dict[str, Any]:
    """Return the schema; raises UsageError naming its origin and all mistakes if it is no valid record schema.

    `plain_names`: require field names that Avro allows, as events in JSON may have others. `own`: require types
    that Spark has, as events are read with this schema.
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
        raise UsageError(f"{origin}: not usable to read events: {'; '.join(dict.fromkeys(found))}")
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise UsageError(f"{origin}: the schema of an event must be a record")
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field["name"], str) for field in fields):
        raise UsageError(f"{origin}: 'fields' must be a list of fields, each with a name and a type")
    return schema


@cache
def protocol_codec(name: str) -> Codec:
    """Return the codec of one of the protocol's own schemas, by file name without extension."""
    return Codec(load_schema(schema_folder() / f"{name}.avsc"))
