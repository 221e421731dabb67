"""Headers of the changelog's values and the output's records, in the job file's formats."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from cutwater.adapters.avro.codec import Codec, protocol_codec
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.registry import Registry, registry_for
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import CONFLUENT, confluent_header
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation


@dataclass(frozen=True)
class OutputHeaders:
    """Headers before the body of a row and of an end marker."""

    row: bytes
    end: bytes


def state_header(job: Job, generation: Generation, registry: Registry | None) -> bytes:
    """Return the header of a changelog value. Keys have none: compaction compares their bytes.

    Raises UsageError or UnavailableError, as `Registry.number_of` does.
    """
    if job.changelog_format != CONFLUENT:
        return Codec(job.state_schema).header
    subject, schema = state_subject(job, generation)
    return confluent_header(_required(job, registry).number_of(subject, schema, job.registry.auto_register))


def output_headers(job: Job, registry: Registry | None) -> OutputHeaders:
    """Return the headers of an Avro output, as single objects or with schema ids. Raises as `state_header`."""
    if job.output.format != CONFLUENT:
        return OutputHeaders(Codec(job.output_schema).header, protocol_codec("end").header)
    asked, allowed = _required(job, registry), job.registry.auto_register
    row, end = (asked.number_of(subject, schema, allowed) for subject, schema in output_subjects(job))
    return OutputHeaders(confluent_header(row), confluent_header(end))


def state_header_of(job: Job, settings: Settings) -> bytes:
    """Return `state_header` with a registry client of its own."""
    with registry_for(job, settings) or nullcontext() as registry:
        return state_header(job, settings.generation, registry)


def output_headers_of(job: Job, settings: Settings) -> OutputHeaders:
    """Return `output_headers` with a registry client of its own."""
    with registry_for(job, settings) or nullcontext() as registry:
        return output_headers(job, registry)


def written_subjects(job: Job, generation: Generation) -> list[tuple[str, dict[str, Any]]]:
    """Return subject and schema of everything that is written with a schema id, events included."""
    events = [(job.format.subject, job.event_schema)] if job.format.kind == CONFLUENT else []
    state = [state_subject(job, generation)] if job.changelog_format == CONFLUENT else []
    return events + state + (output_subjects(job) if job.output.format == CONFLUENT else [])


def state_subject(job: Job, generation: Generation) -> tuple[str, dict[str, Any]]:
    """Return subject and schema of the changelog's values, by TopicNameStrategy: `<topic>-value`."""
    return f"{topics.changelog(job.name, generation)}-value", job.state_schema


def output_subjects(job: Job) -> list[tuple[str, dict[str, Any]]]:
    """Return those of rows, `<topic>-value`, and of end markers, by TopicRecordNameStrategy as they differ."""
    end, topic = protocol_codec("end").schema, topics.output(job.name)
    return [(f"{topic}-value", job.output_schema), (f"{topic}-{end['namespace']}.{end['name']}", end)]


def _required(job: Job, registry: Registry | None) -> Registry:
    if registry is None:
        raise UsageError(f"job {job.name}: format {CONFLUENT} needs a schema registry")
    return registry
