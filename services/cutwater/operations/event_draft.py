"""What `init` drafts of a topic's events: their schema, and a proposal over their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cutwater.adapters.job_files.event_schema import field_types
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.rejection import Flaw
from cutwater.core.events.schema_inference import infer
from cutwater.core.job.drafts.draft_file import schema_name
from cutwater.core.job.drafts.draft_proposal import Proposal, propose
from cutwater.core.job.drafts.nested_fields import chosen_path, nested_fields
from cutwater.core.job.field_paths import column_paths, parse_path
from cutwater.core.job.job import Job
from cutwater.core.job.measures import ADDEND_DIGITS, TIMES
from cutwater.core.job.usable_events import Rejected, tally
from cutwater.operations.event_sample import judge_records
from cutwater.operations.format_detection import DetectedFormat, written_with
from cutwater.operations.topic_sample import Sample

MICROS = "timestamp-micros"
"""Unit of the times in decoded events, for every logical type of their schema."""


@dataclass(frozen=True)
class EventDraft:
    schema: dict[str, Any]
    proposal: Proposal
    left_out: tuple[tuple[str, str], ...]


def draft_event(found: DetectedFormat, job: str, key: Sequence[str], event_time: str | None) -> EventDraft:
    """Draft schema and proposal. `key`, `event_time`: what the user chose, by name or path.

    Raises UsageError if no field is suitable, or a chosen one is not.
    """
    if found.schema is None:
        return _of_json(found, job, [_of_objects(one) for one in key], event_time and _of_objects(event_time))
    # Decimals with no digit before the point leave no room for a sum.
    types = {field: one for field, one in field_types(found.schema).items() if one.scale < ADDEND_DIGITS}
    kinds = {field: MICROS if one.name in TIMES else one.name for field, one in types.items()}
    schema = Schema.of(found.schema)
    key = [chosen_path(schema, one) for one in key]
    event_time = event_time and chosen_path(schema, event_time)
    chosen = (*key, event_time) if event_time else key
    inner = nested_fields(schema, [row.event for row in found.rows], chosen)
    values = [
        dict(zip(inner, one, strict=True)) for one in zip(*(one.values for one in inner.values()), strict=True)
    ]
    made = _proposed(found, values, kinds, key, event_time, {path: one.kind for path, one in inner.items()})
    return EventDraft(found.schema, made, ())


def _of_json(found: DetectedFormat, job: str, key: Sequence[str], event_time: str | None) -> EventDraft:
    inferred = infer([row.event for row in found.rows], [event_time] if event_time else [])
    proposal = _proposed(found, inferred.values, inferred.kinds, key, event_time, inferred.inner)
    used = proposal.columns.values()
    schema = inferred.schema(schema_name(job), (*proposal.key, proposal.event_time), used)
    objects = {path.partition(".")[0] for path in used}
    return EventDraft(schema, proposal, tuple(one for one in inferred.left_out if one[0] not in objects))


def _of_objects(path: str) -> str:
    """Return a path with points, as objects in JSON are inferred: `tags.region` for `tags['region']`."""
    steps = parse_path(path) or (path,)
    return ".".join(map(str, steps)) if all(isinstance(one, str) for one in steps) else path


def _proposed(
    found: DetectedFormat,
    values: Sequence[Mapping[str, Any]],
    kinds: Mapping[str, str],
    key: Sequence[str],
    event_time: str | None,
    inner: Mapping[str, str],
) -> Proposal:
    """`values`: of each event those inside of others, by path."""
    both = zip(found.rows, values, strict=True) if inner else ((row, {}) for row in found.rows)
    rows = [replace(row, event={**row.event, **more}) for row, more in both]
    return propose(rows, kinds, key, event_time, inner)


def list_rejected(job: Job, samples: Sequence[Sample]) -> list[Rejected] | None:
    """Return the records that the driver would reject with a drafted job; None if only Spark can tell."""
    if column_paths(job) is None:
        return None
    judged = judge_records(job, samples, written_with(job, samples))
    return tally((found, one.value) for one, found in judged if isinstance(found, Flaw))
