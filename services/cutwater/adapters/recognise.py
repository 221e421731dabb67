"""In which format are these records, and what do they say? By their first bytes and the schemas at hand."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro

from cutwater.adapters.avro import HEADER_BYTES, MARKER, Codec, load_schema, schema_folder
from cutwater.adapters.sampling import Sample
from cutwater.core.errors import UsageError
from cutwater.core.formats import AVRO, CONFLUENT, CONFLUENT_HEADER_BYTES, JSON, JSON_SCHEMA, confluent_numbers
from cutwater.core.inference import parse_event
from cutwater.core.proposal import Row

_SCHEMA_FILES_MAX = 1_000


@dataclass(frozen=True)
class Recognised:
    """The format, the events that could be read, and how many could not."""

    format: str
    rows: Sequence[Row]
    unreadable: int
    schema: dict[str, Any] | None
    """None for JSON: it is still to be inferred."""
    schema_file: Path | None = None


def recognise(samples: Sequence[Sample], topic: str, schema: Path | None, folders: Iterable[Path]) -> Recognised:
    """Tell the format by most of the samples, and decode them.

    `schema` is the user's own; else single-object Avro is looked up by fingerprint in `folders` and among
    Cutwater's schemas. Raises UsageError when nothing fits, with the bytes seen and what to give.
    """
    values = [one.value for one in samples if one.value]
    if not values:
        raise UsageError(f"topic {topic} holds no records with a value: produce some, then run this again")
    format_ = _most(_format(value) for value in values)
    if format_ == JSON:
        return _decoded(JSON, samples, parse_event, None, None)
    if format_ == JSON_SCHEMA:
        raise UsageError(f"topic {topic}, schemas {_numbers(samples)} of a registry: a record {JSON_SCHEMA}")
    if format_ == CONFLUENT:
        return _confluent(samples, topic, schema)
    if format_ == AVRO:
        file, found = _known(_most(value[:HEADER_BYTES] for value in values), topic, schema, folders)
        return _decoded(AVRO, samples, _safely(Codec(found).decode), found, file)
    raise UsageError(
        f"topic {topic}: values begin with {values[0][:HEADER_BYTES].hex()}: neither JSON objects, nor Avro in "
        "single-object encoding, nor a schema registry's framing; these are what Cutwater reads"
    )


def _format(value: bytes) -> str:
    if value.startswith(MARKER):
        return AVRO
    if value[:1] == b"\x00" and len(value) > CONFLUENT_HEADER_BYTES:
        return JSON_SCHEMA if parse_event(value[CONFLUENT_HEADER_BYTES:]) is not None else CONFLUENT
    return JSON if parse_event(value) is not None else ""


def _most(found: Iterable[Any]) -> Any:
    counts: dict[Any, int] = {}
    for one in found:
        counts[one] = counts.get(one, 0) + 1
    return max(counts, key=lambda one: counts[one])


def _known(header: bytes, topic: str, schema: Path | None, folders: Iterable[Path]) -> tuple[Path, dict[str, Any]]:
    files = [schema] if schema else [file for folder in (*folders, schema_folder()) for file in _files(folder)]
    for file in files:
        try:
            found = load_schema(file)
        except UsageError:
            if schema:
                raise
            continue  # somebody else's file
        if Codec(found).header == header:
            return file, found
    looked = str(schema) if schema else f"{len(files)} schemas at hand"
    raise UsageError(
        f"topic {topic} is Avro of a schema with fingerprint {header[2:].hex()}, and {looked} have another: "
        "give the writers' schema with --schema FILE"
    )


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.avsc"))[:_SCHEMA_FILES_MAX] if folder.is_dir() else []


def _confluent(samples: Sequence[Sample], topic: str, schema: Path | None) -> Recognised:
    if schema is None:
        raise UsageError(
            f"topic {topic} has a schema registry's framing (schemas {_numbers(samples)}): give the "
            "newest schema of its subject with --schema FILE"
        )
    found = load_schema(schema)
    parsed = fastavro.parse_schema(found)

    def decode(value: bytes) -> Any:
        return fastavro.schemaless_reader(io.BytesIO(value[CONFLUENT_HEADER_BYTES:]), parsed, None)

    return _decoded(CONFLUENT, samples, _safely(decode), found, schema)


def _numbers(samples: Sequence[Sample]) -> str:
    """Of the first few schemas."""
    return ", ".join(map(str, sorted(confluent_numbers(one.value for one in samples))[:5]))


def _safely(decode: Callable[[bytes], Any]) -> Callable[[bytes], dict[str, Any] | None]:
    def one(value: bytes) -> dict[str, Any] | None:
        try:
            found = decode(value)
        except (UsageError, EOFError, ValueError, TypeError, LookupError, ArithmeticError, StopIteration):
            return None
        return found if isinstance(found, dict) else None

    return one


def _decoded(
    format_: str,
    samples: Sequence[Sample],
    decode: Callable[[bytes], dict[str, Any] | None],
    schema: dict[str, Any] | None,
    file: Path | None,
) -> Recognised:
    rows = []
    for one in samples:
        event = decode(one.value) if one.value else None
        if event is not None:
            rows.append(Row(event, one.partition, one.offset, one.timestamp_ms, _key_text(one.key)))
    if not rows:
        raise UsageError(f"none of {len(samples)} records can be read as {format_} of {file or 'any kind'}")
    return Recognised(format_, rows, len(samples) - len(rows), schema, file)


def _key_text(key: bytes | None) -> str | None:
    try:
        return key.decode("utf-8") if key is not None else None
    except UnicodeDecodeError:
        return None
