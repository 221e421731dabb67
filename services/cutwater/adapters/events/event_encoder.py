"""The schemas that wrote the events of a job, and the encoder of new events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.adapters.avro.codec import MARKER, Codec, crc64
from cutwater.adapters.events.event_values import event_values
from cutwater.adapters.events.registry import NotThereError, Registered, Registry
from cutwater.adapters.events.registry_references import JSON_SCHEMA, PROTOBUF_SCHEMA
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import (
    AVRO,
    CONFLUENT,
    CONFLUENT_JSON,
    CONFLUENT_PROTOBUF,
    JSON,
    JSON_FORMATS,
    WriterSchema,
    confluent_header,
)
from cutwater.core.events.json_events import encode, json_fields
from cutwater.core.events.protobuf.encoder import encode_message
from cutwater.core.events.protobuf.fields import message_name, protobuf_fields
from cutwater.core.events.protobuf.message_index import message_index, schema_messages
from cutwater.core.events.protobuf.wire import WireError
from cutwater.core.events.reader_schema import unknown_symbols
from cutwater.core.events.schema_compatibility import reading
from cutwater.core.job.job import Job
from cutwater.core.util.suggestions import listed

Encode = Callable[[dict[str, Any]], bytes]
_OF_PRODUCERS = {CONFLUENT_JSON: (JSON_SCHEMA, "JSON Schema"), CONFLUENT_PROTOBUF: (PROTOBUF_SCHEMA, ".proto")}
"""Kinds of schemas that producers register, by format."""


def known_schemas(job: Job, registry: Registry | None) -> tuple[WriterSchema, ...]:
    """Return every schema that may have written events of the job, newest first; none for plain JSON."""
    if job.format.kind == JSON:
        return ()
    if job.format.kind == AVRO:
        return tuple(_by_fingerprint(schema) for schema in (job.event_schema, *job.format.older))
    found = _versions(job, registry)
    # Two versions of a subject may be one schema with one id.
    by_number = {one.id: one for one in reversed(found)}
    known = tuple(_writer(job, one) for one in sorted(by_number.values(), key=lambda one: -one.version))
    if all(one.problem for one in known):
        raise UsageError(known[0].problem)
    return known


def _writer(job: Job, one: Registered) -> WriterSchema:
    header, problem = confluent_header(one.id), one.problem
    if job.format.kind == CONFLUENT_PROTOBUF and not problem:
        index, problem = _index_in(job, one)
        header += index
    return WriterSchema(header, one.schema, f"number {one.id} (version {one.version})", problem)


def _index_in(job: Job, one: Registered) -> tuple[bytes, str]:
    """Return the index of the job's message in a version of the subject, or why there is none."""
    message = message_name(job.event_schema)
    try:
        found = schema_messages(one.text)
        return message_index(found.index(message)), ""
    except WireError:
        why = "is no .proto, and no descriptor of one"
    except ValueError:
        why = f"has no message {message}; it has: {listed(found)}"
    return b"", f"version {one.version} of {job.format.subject} {why}"


def unreadable(job: Job, known: tuple[WriterSchema, ...]) -> list[str]:
    """Return why some or all events of a known schema are undecodable, by the same rules as the query."""
    lines = []
    for one in known:
        if one.problem:
            lines.append(f"schema {one.name}: {one.problem}; all of its events are rejected")
        if not one.schema:
            continue
        found = reading(one.schema, job.event_schema)
        lines += [f"schema {one.name}: {problem}; all of its events are rejected" for problem in found.refused]
        lines += [f"schema {one.name}: {problem}; events that contain it are rejected" for problem in found.unfit]
    return lines


def defaulted(job: Job, known: tuple[WriterSchema, ...]) -> list[str]:
    """Return known schemas with symbols that the job's schema reads as a default: such events are counted."""
    return [
        f"schema {one.name}: enum {enum}: the symbols {', '.join(found.symbols)} are read as {found.default}"
        for one in known
        if one.schema
        for enum, found in unknown_symbols([one.schema], job.event_schema).items()
    ]


def event_encoder(job: Job, registry: Registry | None) -> Encode:
    """Return the encoder of events to values of the job's topic. It raises UsageError for an invalid event. A
    datetime without a zone is UTC.

    With a registry a new schema is registered first, if the job file allows it: readers need its id.
    """
    if job.format.kind == CONFLUENT_PROTOBUF:
        message, head = protobuf_fields(job.event_schema), _newest_header(job, registry)
        return lambda record: head + encode_message(record, message)
    codec, plain = Codec(job.event_schema), event_values(job.event_schema)
    if job.format.kind == AVRO:
        return lambda record: codec.encode(plain(record))
    if job.format.kind in JSON_FORMATS:
        fields = json_fields(job.event_schema)
        framed = b"" if job.format.kind == JSON else _newest_header(job, registry)

        def as_json(record: dict[str, Any]) -> bytes:
            values = plain(record)
            codec.body(values)  # it must fit the schema before it is written without one
            return framed + encode(values, fields)

        return as_json
    asked, subject, allowed = _required(job, registry), job.format.subject, job.registry.auto_register
    number = asked.equal_number(subject, job.event_schema)  # a registered schema may refer to others
    if number is None:
        number = asked.number_of(subject, job.event_schema, allowed)
    header = confluent_header(number)
    return lambda record: header + codec.body(plain(record))


def _newest_header(job: Job, registry: Registry | None) -> bytes:
    """Return the framing with the subject's newest version, which producers register."""
    newest = _writer(job, _versions(job, registry, deleted=False)[0])
    if newest.problem:
        raise UsageError(newest.problem)
    return newest.header


def _versions(job: Job, registry: Registry | None, deleted: bool = True) -> list[Registered]:
    asked = _required(job, registry)
    if job.format.kind == CONFLUENT:
        return asked.versions(job.format.subject, deleted)
    kind, called = _OF_PRODUCERS[job.format.kind]
    try:
        return asked.versions(job.format.subject, deleted, kind)
    except NotThereError:
        raise NotThereError(
            f"the schema registry at {asked.url} has no subject {job.format.subject}: name it in source.subject, "
            f"or register the {called} of the events under it; Cutwater registers none"
        ) from None


def _by_fingerprint(schema: dict[str, Any]) -> WriterSchema:
    fingerprint = crc64(schema)
    return WriterSchema(MARKER + fingerprint, schema, fingerprint.hex())


def _required(job: Job, registry: Registry | None) -> Registry:
    if registry is None:
        raise UsageError(f"job {job.name}: events in format {job.format.kind} need a schema registry")
    return registry
