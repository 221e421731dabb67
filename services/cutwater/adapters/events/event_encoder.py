"""Which schemas wrote the events of a job, and the encoder of new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.adapters.avro.codec import MARKER, Codec, crc64
from cutwater.adapters.events.registry import Registry
from cutwater.core.errors import UsageError
from cutwater.core.events.enum_symbols import unknown_symbols
from cutwater.core.events.formats import AVRO, CONFLUENT, JSON, WriterSchema, confluent_header
from cutwater.core.events.json_events import encode, json_fields
from cutwater.core.events.schema_compatibility import reading
from cutwater.core.job.job import Job

Encode = Callable[[dict[str, Any]], bytes]


def known_schemas(job: Job, registry: Registry | None) -> tuple[WriterSchema, ...]:
    """Every schema that an event of the job may be written with, the newest first; none for JSON."""
    if job.format.kind == JSON:
        return ()
    if job.format.kind == AVRO:
        return tuple(_by_fingerprint(schema) for schema in (job.event_schema, *job.format.older))
    found = _required(job, registry).versions(job.format.subject)
    if all(one.problem for one in found):
        raise UsageError(found[0].problem)
    # Two versions of a subject may be one schema with one number.
    by_number = {one.id: one for one in reversed(found)}
    return tuple(
        WriterSchema(confluent_header(one.id), one.schema, f"number {one.id} (version {one.version})", one.problem)
        for one in sorted(by_number.values(), key=lambda one: -one.version)
    )


def unreadable(job: Job, known: tuple[WriterSchema, ...]) -> list[str]:
    """Known schemas of whose events some or all are undecodable, and why: the query decides by the same."""
    lines = []
    for one in known:
        if one.problem:
            lines.append(f"schema {one.name}: {one.problem}; none of its events is taken")
            continue
        found = reading(one.schema, job.event_schema)
        lines += [f"schema {one.name}: {problem}; none of its events is taken" for problem in found.refused]
        lines += [f"schema {one.name}: {problem}; events that hold it are not taken" for problem in found.unfit]
    return lines


def defaulted(job: Job, known: tuple[WriterSchema, ...]) -> list[str]:
    """Known schemas with symbols that the job's schema reads as a default: such events are counted."""
    return [
        f"schema {one.name}: {field}: the symbols {', '.join(found.symbols)} are read as {found.default}"
        for one in known
        if not one.problem
        for field, found in unknown_symbols(one.schema, job.event_schema).items()
    ]


def event_encoder(job: Job, registry: Registry | None) -> Encode:
    """How an event becomes a value of the job's topic. It raises UsageError for one that does not fit.

    With a registry the schema is registered first, if it is new there and the job file allows it: events of an
    unknown number could not be read by anybody.
    """
    codec = Codec(job.event_schema)
    if job.format.kind == AVRO:
        return codec.encode
    if job.format.kind == JSON:
        fields = json_fields(job.event_schema)

        def as_json(record: dict[str, Any]) -> bytes:
            codec.body(record)  # it must fit the schema before it is written without one
            return encode(record, fields)

        return as_json
    allowed = job.registry.auto_register
    number = _required(job, registry).number_of(job.format.subject, job.event_schema, allowed)
    header = confluent_header(number)
    return lambda record: header + codec.body(record)


def _by_fingerprint(schema: dict[str, Any]) -> WriterSchema:
    fingerprint = crc64(schema)
    return WriterSchema(MARKER + fingerprint, schema, fingerprint.hex())


def _required(job: Job, registry: Registry | None) -> Registry:
    if registry is None:
        raise UsageError(f"job {job.name}: events in format {CONFLUENT} need a schema registry")
    return registry
