"""Detection of the format of records, by their first bytes and the available schemas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutwater.adapters.avro.codec import HEADER_BYTES, Codec, check_schema, load_schema, schema_folder
from cutwater.adapters.events.avro_events import AvroReader
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.event_schema import load_message
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import (
    AVRO,
    CONFLUENT,
    CONFLUENT_HEADER_BYTES,
    CONFLUENT_JSON,
    CONFLUENT_PROTOBUF,
    FORMATS,
    JSON,
    NOT_FRAMED,
    REGISTRY_FORMATS,
    WriterSchema,
    confluent_header,
    confluent_numbers,
    framed,
    is_confluent,
    is_framed_json,
)
from cutwater.core.events.protobuf.message_index import index_at_start
from cutwater.core.events.protobuf.records import ProtobufReader
from cutwater.core.events.rejection import UNDECODABLE, Flaw
from cutwater.core.events.schema_inference import parse_event
from cutwater.core.job.drafts.draft_fields import SampleRow
from cutwater.core.job.job import Job
from cutwater.operations.topic_sample import Sample

_Found = dict[str, Any] | Flaw
_SCHEMA_FILES_MAX = 1_000
_IF_PROTOBUF = (
    "if the events are Protobuf, give a .proto or a descriptor file with --schema FILE and the events' message "
    "with --message NAME (docs/FORMATS.md)"
)


@dataclass(frozen=True)
class DetectedFormat:
    """The format, the decoded events, and the number of unreadable ones. Times in Avro are in microseconds."""

    format: str
    rows: Sequence[SampleRow]
    unreadable: int
    schema: dict[str, Any] | None
    """None for JSON, whose schema is inferred later; of Protobuf made of the message."""
    schema_file: Path | None = None


def written_with(job: Job, samples: Sequence[Sample]) -> tuple[WriterSchema, ...]:
    """Return the schemas that the records of a drafted job may be written with. The registry is not queried:
    each of its ids in the sample is assumed to be the given schema."""
    if job.format.kind not in REGISTRY_FORMATS:
        return known_schemas(job, None)
    if job.format.kind == CONFLUENT_PROTOBUF:
        return _of_messages(samples)
    schema = job.event_schema if job.format.kind == CONFLUENT else {}
    return tuple(WriterSchema(one, schema, one.hex()) for one in _headers(samples))


def detect_format(
    samples: Sequence[Sample],
    topic: str,
    schema: Path | None,
    folders: Iterable[Path],
    message: str | None = None,
) -> DetectedFormat:
    """Detect the format of most samples, and decode them. `schema`: the user's file. Without it single-object
    Avro is looked up by fingerprint in `folders` and among Cutwater's schemas. `message`: of Protobuf, which the
    bytes do not tell from Avro. Raises UsageError, with the bytes and the next step, if nothing matches."""
    values = [one.value for one in samples if one.value]
    if not values and samples:
        raise UsageError(
            f"none of the newest {len(samples):,} records of topic {topic} has a value: sample more with --records"
        )
    if not values:
        raise UsageError(f"topic {topic} holds no records: produce some, then run this again")
    format_ = _most(_format(value) for value in values)
    if message and format_ != CONFLUENT:
        raise UsageError(f"topic {topic} has no Protobuf behind a schema registry's framing: leave out --message")
    if format_ == JSON:
        return _decoded(JSON, samples, parse_event, None, None)
    if format_ == CONFLUENT_JSON:
        return _decoded(CONFLUENT_JSON, samples, _parse_framed, None, None)
    if format_ == CONFLUENT:
        return _confluent(samples, topic, schema, message)
    if format_ == AVRO:
        file, found = _find_schema(_most(value[:HEADER_BYTES] for value in values), topic, schema, folders)
        return _decoded(AVRO, samples, _avro(AVRO, found, [Codec(found).header]), found, file)
    raise UsageError(
        f"topic {topic}: values start with {values[0][:HEADER_BYTES].hex()}: neither JSON objects, nor Avro in "
        "single-object encoding, nor a schema registry's framing, which are the formats that Cutwater reads"
    )


def _format(value: bytes) -> str:
    if is_framed_json(value):
        return CONFLUENT_JSON
    return next((one for one in FORMATS if framed(one, value.lstrip(b" \t\n\r"))), "")


def _most(found: Iterable[Any]) -> Any:
    counts: dict[Any, int] = {}
    for one in found:
        counts[one] = counts.get(one, 0) + 1
    return max(counts, key=lambda one: counts[one])


def _find_schema(
    header: bytes, topic: str, schema: Path | None, folders: Iterable[Path]
) -> tuple[Path, dict[str, Any]]:
    files = [schema] if schema else [file for folder in (*folders, schema_folder()) for file in _files(folder)]
    for file in files:
        try:
            found = load_schema(file)
        except UsageError:
            if schema:
                raise
            continue  # another program's file
        if Codec(found).header == header:
            return file, check_schema(found, str(file), own=True)
    looked = str(schema) if schema else f"{len(files)} available schemas"
    raise UsageError(
        f"topic {topic} is Avro of a schema with fingerprint {header[2:].hex()}, which does not match {looked}: "
        "give the writers' schema with --schema FILE"
    )


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.avsc"))[:_SCHEMA_FILES_MAX] if folder.is_dir() else []


def _confluent(samples: Sequence[Sample], topic: str, schema: Path | None, message: str | None) -> DetectedFormat:
    if schema is None:
        raise UsageError(
            f"topic {topic} has a schema registry's framing (schemas {_numbers(samples)}): give the "
            f"newest schema of its subject with --schema FILE; {_IF_PROTOBUF}"
        )
    if message:
        found = load_message(schema, message)
        read = ProtobufReader(found, _of_messages(samples)).read
        return _decoded(CONFLUENT_PROTOBUF, samples, read, found, schema)
    try:
        found = load_schema(schema, own=True)
        return _decoded(CONFLUENT, samples, _avro(CONFLUENT, found, _headers(samples)), found, schema)
    except UsageError as error:
        raise UsageError(f"{error}; {_IF_PROTOBUF}") from None


def _of_messages(samples: Sequence[Sample]) -> tuple[WriterSchema, ...]:
    """Return the schemas of Protobuf, each with the index that most of its records have."""
    found: dict[bytes, list[bytes]] = {}
    for one in samples:
        if one.value and is_confluent(one.value):
            found.setdefault(one.value[:CONFLUENT_HEADER_BYTES], []).append(index_at_start(one.value))
    return tuple(WriterSchema(number + _most(of), {}, number.hex()) for number, of in found.items())


def _numbers(samples: Sequence[Sample]) -> str:
    return ", ".join(map(str, sorted(confluent_numbers(one.value for one in samples))[:5]))


def _headers(samples: Sequence[Sample]) -> list[bytes]:
    return [confluent_header(one) for one in confluent_numbers(one.value for one in samples)]


def _parse_framed(value: bytes | None) -> _Found:
    if value is not None and not is_confluent(value):
        return Flaw(UNDECODABLE, NOT_FRAMED.format(CONFLUENT_JSON))
    return parse_event(value and value[CONFLUENT_HEADER_BYTES:])


def _avro(kind: str, schema: dict[str, Any], headers: Iterable[bytes]) -> Callable[[bytes | None], _Found]:
    return AvroReader(kind, schema, [WriterSchema(one, schema, one.hex()) for one in headers]).read


def _decoded(
    format_: str,
    samples: Sequence[Sample],
    decode: Callable[[bytes | None], _Found],
    schema: dict[str, Any] | None,
    file: Path | None,
) -> DetectedFormat:
    rows = []
    broken: Counter[str] = Counter()
    for one in samples:
        event = decode(one.value)
        if isinstance(event, Flaw):
            broken[event.rule] += 1
        else:
            rows.append(SampleRow(event, one.partition, one.offset, one.timestamp_ms, _key_text(one.key)))
    if not rows:
        [(rule, count)] = broken.most_common(1)
        read_as = f"{format_} of {file or 'any kind'}"
        raise UsageError(f"none of {len(samples)} records can be read as {read_as}: {rule} ({count} times)")
    return DetectedFormat(format_, rows, len(samples) - len(rows), schema, file)


def _key_text(key: bytes | None) -> str | None:
    try:
        return key.decode("utf-8") if key is not None else None
    except UnicodeDecodeError:
        return None
