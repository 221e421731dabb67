"""What `init` drafts of a topic's events: their schema, and a proposal over their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Any

from cutwater.adapters.job_files.event_schema import field_types
from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.rejection import Flaw
from cutwater.core.events.schema_inference import infer
from cutwater.core.job.drafts.draft_fields import SampleRow, steps_of
from cutwater.core.job.drafts.draft_file import schema_name
from cutwater.core.job.drafts.draft_proposal import Exploded, Proposal, propose
from cutwater.core.job.drafts.nested_fields import (
    NestedField,
    chosen_path,
    element_fields,
    element_of,
    nested_fields,
    values_at,
)
from cutwater.core.job.drafts.nested_schema import infer_nested, keep_paths
from cutwater.core.job.field_paths import PathTarget, column_paths
from cutwater.core.job.job import Job
from cutwater.core.job.measures import ADDEND_DIGITS, TIMES
from cutwater.core.job.usable_events import Rejected, tally
from cutwater.core.util.suggestions import safe, value_text
from cutwater.operations.event_sample import judge_records
from cutwater.operations.format_detection import DetectedFormat, written_with
from cutwater.operations.topic_sample import Sample

MICROS = "timestamp-micros"
"""Unit of the times in decoded events, for every logical type of their schema."""
ELEMENTS_MAX = 10_000
"""Elements of all sampled events that a draft looks at."""


@dataclass(frozen=True)
class Choice:
    """Fields that the user chose, by name or path."""

    key: Sequence[str] = ()
    event_time: str | None = None
    explode: str | None = None
    """The array whose elements are the events."""


@dataclass(frozen=True)
class EventDraft:
    schema: dict[str, Any]
    proposal: Proposal
    left_out: tuple[tuple[str, str], ...]


def draft_event(found: DetectedFormat, job: str, choice: Choice) -> EventDraft:
    """Draft schema and proposal.

    Raises UsageError if no field is suitable, or a chosen one is not.
    """
    if found.schema is None:
        return _of_json(found, job, choice)
    # Decimals with no digit before the point leave no room for a sum.
    types = {field: one for field, one in field_types(found.schema).items() if one.scale < ADDEND_DIGITS}
    kinds = {field: MICROS if one.name in TIMES else one.name for field, one in types.items()}
    return EventDraft(found.schema, _proposed(found, Schema.of(found.schema), kinds, choice), ())


def _of_json(found: DetectedFormat, job: str, choice: Choice) -> EventDraft:
    events = [row.event for row in found.rows]
    time = choice.event_time
    steps = [0 if isinstance(one, int) else one for one in steps_of(time)] if time else []
    name, inferred = schema_name(job), infer(events, [time] if time else [])
    nested = infer_nested(events, name, [tuple(steps)])
    proposal = _proposed(found, Schema.of(inferred.schema(name, (), nested)), inferred.kinds, choice)
    used = [steps_of(path) for path in proposal.columns.values()]
    if one := proposal.exploded:
        used += [(*steps_of(one.array), 0, *steps_of(path)[1:]) for path in one.columns.values()]
    schema = inferred.schema(name, (*proposal.key, proposal.event_time), keep_paths(nested, used))
    holders = {path[0] for path in used}
    return EventDraft(schema, proposal, tuple(one for one in inferred.left_out if one[0] not in holders))


def _proposed(found: DetectedFormat, schema: Schema, kinds: Mapping[str, str], choice: Choice) -> Proposal:
    """`schema`: with all that the events hold. `kinds`: of its flat fields."""
    array, element = _array(found, schema, choice.explode) if choice.explode else (None, None)
    key = [_path(found, schema, one, element) for one in choice.key]
    event_time = choice.event_time and _path(found, schema, choice.event_time, element)
    chosen = [one for one in (*key, event_time or "") if not _begins_with(one, element)]
    inner = nested_fields(schema, [row.event for row in found.rows], chosen)
    rows = _with_values(found.rows, inner)
    taken = _names(schema)
    if array is None or element is None:
        return propose(rows, kinds, key, event_time, _kinds(found, inner), taken=taken)
    arrays = values_at([row.event for row in rows], array.steps)
    every = ((row, one) for row, values in zip(rows, arrays, strict=True) for one in values or ())
    pairs = list(islice((one for one in every if one[1] is not None), ELEMENTS_MAX))
    if not pairs:
        raise UsageError(f"'{safe(array.path)}' has no element in any sampled event")
    elements = [one for _, one in pairs]
    fields = element_fields(schema, element, elements, key)
    if not fields:
        raise UsageError(f"an element of '{safe(array.path)}' holds no value that a column can be")
    rows = _with_values([row for row, _ in pairs], fields)
    exploded = Exploded(array.path, element.path)
    return propose(rows, kinds, key, event_time, _kinds(found, inner), exploded, _kinds(found, fields), taken)


def _array(found: DetectedFormat, schema: Schema, text: str) -> tuple[PathTarget, PathTarget]:
    taken = {one.lower() for one in _names(schema)}
    able = chain(("item", "element"), (f"item_{number}" for number in count(2)))
    name = next(one for one in able if one not in taken)
    with _named_by_user(found, text):
        return element_of(schema, text, name)


def _names(schema: Schema) -> list[str]:
    """Return the names of an event's fields."""
    return [one["name"] for one in schema.type_of(schema.root)["fields"]]


def _path(found: DetectedFormat, schema: Schema, text: str, element: PathTarget | None) -> str:
    with _named_by_user(found, text):
        return chosen_path(schema, text, element)


@contextmanager
def _named_by_user(found: DetectedFormat, text: str) -> Iterator[None]:
    """The schema of JSON is nobody's: the error tells of the events."""
    try:
        yield
    except UsageError as error:
        if found.schema is not None:
            raise
        why = str(error).replace("the schema has", "the schema inferred from them has")
        raise UsageError(f"the samples have no usable {value_text(text)}: {why}") from None


def _begins_with(path: str, element: PathTarget | None) -> bool:
    return element is not None and steps_of(path)[0] == element.path


def _kinds(found: DetectedFormat, fields: Mapping[str, NestedField]) -> dict[str, str]:
    """A time in JSON has the unit of the schema; one in a decoded event is in microseconds."""
    return {path: one.stored_kind if found.schema is None else one.kind for path, one in fields.items()}


def _with_values(rows: Sequence[SampleRow], fields: Mapping[str, NestedField]) -> list[SampleRow]:
    if not fields:
        return list(rows)
    values = zip(*(one.values for one in fields.values()), strict=True)
    both = zip(rows, values, strict=True)
    return [replace(row, event={**row.event, **dict(zip(fields, each, strict=True))}) for row, each in both]


def list_rejected(job: Job, samples: Sequence[Sample]) -> list[Rejected] | None:
    """Return the records that the driver would reject with a drafted job; None if only Spark can tell."""
    if column_paths(job) is None:
        return None
    judged = judge_records(job, samples, written_with(job, samples))
    return tally((found, one.value) for one, found in judged if isinstance(found, Flaw))
