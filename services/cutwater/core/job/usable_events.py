"""The checks of a decoded event, for samples that are read without Spark.

The driver does the same in SQL, and a test compares the two for every reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from cutwater.core.events import rejection
from cutwater.core.events.key_columns import DATE, DAYS
from cutwater.core.events.rejection import YEARS, Flaw
from cutwater.core.job.field_paths import NoElementError, Steps, value_at
from cutwater.core.job.job import Job
from cutwater.core.job.measures import TIMES, FieldType, Limit
from cutwater.core.job.row_room import too_long

EXAMPLE_BYTES = 200


def too_large(job: Job, value: bytes | None) -> Flaw | None:
    """Return the flaw of a record larger than max_event_bytes, which is checked before decoding; else None."""
    if len(value or b"") <= job.max_event_bytes:
        return None
    return Flaw(rejection.TOO_LARGE, f"has more than {job.max_event_bytes} bytes, which is max_event_bytes")


def with_columns(event: Mapping[str, Any], paths: Mapping[str, Steps]) -> dict[str, Any] | Flaw:
    """Return a decoded event with the columns of these paths, or the flaw of one without a value."""
    made = dict(event)
    for name, steps in paths.items():
        try:
            made[name] = value_at(event, steps)
        except NoElementError:
            return Flaw(rejection.FAILED_EXPRESSION, rejection.EXPRESSION_RULE, f"source.columns.{name}")
    return made


def find_flaw(
    job: Job, types: Mapping[str, FieldType], event: Mapping[str, Any], written_ms: int | None
) -> Flaw | None:
    """Return the first flaw of a decoded event with its columns; None if it is usable.

    Times are microseconds since 1970, dates are days. A text that is not UTF-8 has surrogates for its bytes.
    `types`: the types of the schema's fields and the columns. `written_ms`: the record's timestamp.
    """
    return next(_flaws(job, types, event, written_ms), None)


def _flaws(
    job: Job, types: Mapping[str, FieldType], event: Mapping[str, Any], written_ms: int | None
) -> Iterator[Flaw]:
    at = event[job.time_field]
    yield from _of_key(job, event)
    if at is None:
        yield Flaw(rejection.NO_EVENT_TIME, rejection.NULL_RULE, job.time_field)
    for name, kind in types.items():
        value = event[name]
        if kind.name == "string" and value is not None and not _is_text(value):
            yield Flaw(rejection.UNDECODABLE, rejection.TEXT_RULE, name)
        elif kind.name in TIMES and value is not None and not YEARS[0] <= value <= YEARS[1]:
            yield Flaw(rejection.UNDECODABLE, rejection.YEARS_RULE + _unit_hint(value, kind.name), name)
    if written_ms is not None:
        yield from _too_far(job, at, written_ms)
    yield from _no_room(job, event)


def _of_key(job: Job, event: Mapping[str, Any]) -> Iterator[Flaw]:
    nulls = job.missing_key_fields(event)
    yield from (Flaw(rejection.NO_KEY, rejection.NULL_RULE, name) for name in nulls)
    dates = {one.name: event.get(one.name) for one in job.key_parts if one.kind == DATE}
    undated = [name for name, days in dates.items() if days is not None and not DAYS[0] <= days <= DAYS[1]]
    yield from (Flaw(rejection.UNDECODABLE, rejection.DATES_RULE, name) for name in undated)
    if nulls or undated:
        return
    if len(job.key_of(event).encode("utf-8", "surrogateescape")) > rejection.MAX_KEY_BYTES:
        rule = f"has more than {rejection.MAX_KEY_BYTES} bytes"
        yield Flaw(rejection.KEY_TOO_LARGE, rule, ", ".join(job.key_fields))


def _no_room(job: Job, event: Mapping[str, Any]) -> Iterator[Flaw]:
    for measure in job.counted_measures:
        if measure.limit and not _fits(event[measure.limit.field], measure.limit):
            rule = f"is beyond {measure.limit.type}, which is what one event may add to measure '{measure.name}'"
            yield Flaw(rejection.NO_ROOM, rule, measure.limit.field)
    for name, (most, rule) in too_long(job).items():
        if len((event[name] or "").encode()) > most:
            yield Flaw(rejection.NO_ROOM, rule, name)


def _too_far(job: Job, at: int, written_ms: int) -> Iterator[Flaw]:
    at_ms = at // 1_000
    if at_ms > written_ms + job.max_ahead_ms:
        rule = f"is more than max_ahead ({job.max_ahead_ms} ms) after its record's timestamp"
        yield Flaw(rejection.TOO_FAR_AHEAD, rule, job.time_field)
    if written_ms < rejection.NO_DATE_MS and at_ms < written_ms - job.max_behind_ms:
        hint = _unit_hint(at, "timestamp-micros" if job.time_micros else "timestamp-millis")
        rule = f"is more than max_behind ({job.max_behind_ms} ms) before its record's timestamp{hint}"
        yield Flaw(rejection.TOO_FAR_BEHIND, rule, job.time_field)


def _unit_hint(micros: int, kind: str) -> str:
    return rejection.unit_hint(micros if kind == "timestamp-micros" else micros // 1_000, kind)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fits(value: Decimal | int | None, limit: Limit) -> bool:
    # abs() of a decimal would round to 28 digits.
    return value is None or Decimal(value).copy_abs() < 10 ** (limit.type.precision - limit.type.scale)


class Rejected(NamedTuple):
    """The records of a sample that the driver would reject for one flaw."""

    flaw: Flaw
    records: int
    example: bytes | None
    """The first bytes of the first such record; None if it has no value."""


def tally(flaws: Iterable[tuple[Flaw, bytes | None]]) -> list[Rejected]:
    first: dict[Flaw, bytes | None] = {}
    count: Counter[Flaw] = Counter()
    for flaw, value in flaws:
        first.setdefault(flaw, None if value is None else value[:EXAMPLE_BYTES])
        count[flaw] += 1
    return [Rejected(flaw, found, first[flaw]) for flaw, found in count.most_common()]
