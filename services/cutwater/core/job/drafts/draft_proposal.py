"""A job proposed from sampled events: key, event time, window and so on, each with a reason."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import KEY_COLUMNS_MAX, PARAMETERS
from cutwater.core.events.rejection import MAX_BEHIND_MS, NO_DATE_MS, YEARS, unit_hint
from cutwater.core.events.schema_inference import sounds_like_time, time_ms
from cutwater.core.job.drafts.draft_fields import (
    COLUMN_CHARS_MAX,
    Fields,
    SampleRow,
    column_names,
    count_distinct,
    inner_hint,
    last_word,
    present_share,
    require_field,
    steps_of,
)
from cutwater.core.job.job import TAKEN_COLUMNS
from cutwater.core.job.measures import NUMBERS, TIMES
from cutwater.core.util.suggestions import safe

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
_ROUND = [10 * SECOND, 30 * SECOND, *(n * MINUTE for n in (1, 2, 5, 10, 30)), *(n * HOUR for n in (1, 2, 6, 12))]
_ROUND += [n * DAY for n in (1, 2, 4, 7, 14, 30, 60, 90, 180, 365, 1_000, 3_650, 36_500)]
_WINDOWS = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY]
EVENTS_PER_WINDOW = 10
QUANTILE = 0.999
SAFETY = 2
RETENTION_MIN = 7 * DAY
MAX_AHEAD_DEFAULT = DAY
BOUND_SHARE = 0.99
"""The share of the sample within the bounds on event times, so that outliers do not move them."""
_KEYISH = re.compile(r"(^|_)(id|key|code|user|customer|device|account|sensor|host|symbol|airport|country)($|_)")
_EVENTISH = re.compile(r"(^|_)(event|occurred|scheduled|at|timestamp|ts)($|_)")
_NOT_EVENTISH = re.compile(r"(^|_)(ingest|ingested|processed|received|updated|modified|inserted|loaded)($|_)")
_MEASURED_MAX = 3
COUNT = "events"
"""The measure that each draft has."""
LIKELY_KEYS = frozenset({"string", "int", "long"})
"""Kinds of fields that are proposed as a key."""
KEYS = LIKELY_KEYS | {"boolean", "date", "uuid", "decimal"}
"""Kinds of fields that a user may choose as a key."""


class Exploded(NamedTuple):
    """An array whose elements are the events."""

    array: str
    """Its path."""
    element: str
    """The name of an element."""
    columns: Mapping[str, str] = MappingProxyType({})
    """Computed columns of an element: name to path."""


@dataclass(frozen=True)
class Proposal:
    key: tuple[str, ...]
    """The columns to group by."""
    key_why: str
    event_time: str
    event_time_why: str
    window_ms: int
    window_why: str
    lateness_ms: int
    lateness_why: str
    retention_ms: int
    max_ahead_ms: int
    max_behind_ms: int
    measures: Mapping[str, tuple[str, str | None]]
    """Name to (measure, field)."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Computed columns: name to the path of a field inside of another."""
    exploded: Exploded | None = None


def propose(
    rows: Sequence[SampleRow],
    kinds: Mapping[str, str],
    key: Sequence[str] = (),
    event_time: str | None = None,
    inner: Mapping[str, str] | None = None,
    exploded: Exploded | None = None,
    of_element: Mapping[str, str] | None = None,
    taken: Iterable[str] = (),
) -> Proposal:
    """Return a proposal for these events. `key`, `event_time`: the fields that the user chose. `inner`: fields
    inside of others, by path as in the rows; they are proposed if no other field is suitable. `exploded`: the rows
    are the elements of this array, with the fields `of_element`, which come first but for the event time. `taken`:
    names of further fields of the event, which no column may have.

    Raises UsageError if no field is suitable, or a chosen one is not.
    """
    fields = Fields(kinds, inner or {}, of_element or {})
    time_field, time_why = _event_time(rows, fields, event_time)
    key_fields, key_why = _key(rows, fields, key)
    timed = _timed(rows, time_field, fields.all[time_field])
    if not timed:
        raise UsageError(
            f"no sample has an event time in '{time_field}' that can be used: it is missing, outside the years "
            "200 to 9799, or in another unit than the schema says. Name another field with --event-time, or let "
            "the producers write that unit"
        )
    written = [(row.timestamp_ms, at) for row, at in timed if row.timestamp_ms is not None]
    ahead = _bound([at - when for when, at in written], MAX_AHEAD_DEFAULT)
    behind = _bound([when - at for when, at in written if when < NO_DATE_MS], MAX_BEHIND_MS)
    timed = [(row, at) for row, at in timed if _within(row, at, ahead, behind)]
    window, window_why = _window(timed, key_fields)
    lateness, lateness_why = _lateness(timed)
    numbers, texts = _measured(rows, fields, {*key_fields, time_field})
    used = (*key_fields, time_field, *numbers, *texts)
    others = (*kinds, *taken, COUNT, *((exploded.element,) if exploded else ()))
    renamed = _renamed(key_fields, fields)
    own = column_names([one for one in used if one in fields.inner or one in renamed], others)
    of_elements = _element_columns(used, fields, (*others, *own.values()))
    named = {**own, **of_elements}
    listed_keys = [named.get(one, one) for one in key_fields] if len(key_fields) > 1 else []
    return Proposal(
        key=tuple(named.get(one, one) for one in key_fields),
        key_why=key_why,
        event_time=named.get(time_field, time_field),
        event_time_why=time_why,
        window_ms=window,
        window_why=window_why,
        lateness_ms=lateness,
        lateness_why=lateness_why,
        retention_ms=max(RETENTION_MIN, _rounded(2 * (lateness + window))),
        max_ahead_ms=ahead,
        max_behind_ms=behind,
        measures=_measures(
            [named.get(one, one) for one in numbers],
            [named.get(one, one) for one in texts],
            (*named.values(), *listed_keys),
        ),
        columns={name: renamed.get(path, path) for path, name in own.items()},
        exploded=exploded and exploded._replace(columns={name: path for path, name in of_elements.items()}),
    )


def _renamed(key: Sequence[str], fields: Fields) -> dict[str, str]:
    """Return the paths of flat fields whose names are reserved, if the key is a list of several columns."""
    taken = TAKEN_COLUMNS | PARAMETERS if len(key) > 1 else frozenset()
    return {one: f"`{one}`" for one in key if one.lower() in taken and one in fields.flat}


def _element_columns(used: Iterable[str], fields: Fields, taken: Iterable[str]) -> dict[str, str]:
    """Return the names of an element's columns by path: at least one, which a job file needs."""
    chosen = [one for one in used if one in fields.element] or list(fields.element)[:1]
    return column_names(chosen, taken, inside=1)


def _event_time(rows: Sequence[SampleRow], of_rows: Fields, said: str | None) -> tuple[str, str]:
    if said is not None and said in of_rows.element:
        raise UsageError(
            f"'{safe(said)}' is inside of an element, and all elements of a record have one event time: name a "
            "field of the record"
        )
    fields = of_rows.of_record
    kinds, able = fields.all, fields.of(TIMES)
    if said is not None:
        needed = "a timestamp in milliseconds or microseconds, or ISO 8601 text"
        require_field(said, fields, kinds.get(said) in TIMES, rows, f"event time: that is {needed}")
        return said, "as you said"
    if not able:
        raise UsageError(
            f"no field holds a time in milliseconds, microseconds or ISO 8601 (fields: {fields.text}). Name one "
            f"with --event-time, or let the producers write one{inner_hint(rows, fields)}"
        )
    best = max(able, key=lambda name: (_time_score(rows, name, kinds[name]), -able.index(name)))
    return best, f"present in {present_share(rows, best):.0%} of the samples{_beside(able, best)}"


def _time_score(rows: Sequence[SampleRow], name: str, kind: str) -> float:
    plain = _snake(last_word(name))
    score = len(_timed(rows, name, kind)) / max(1, len(rows)) * 10 + (
        2 if sounds_like_time(last_word(name)) else 0
    )
    return score + (2 if _EVENTISH.search(plain) else 0) - (5 if _NOT_EVENTISH.search(plain) else 0)


def _is_debezium(rows: Sequence[SampleRow]) -> bool:
    """Return whether most events are Debezium envelopes, whose `op` names the kind of change."""
    wrapped = sum(
        isinstance(row.event.get("op"), str) and {"before", "after"} <= row.event.keys() and "source" in row.event
        for row in rows
    )
    return wrapped * 2 > len(rows)


def _key(rows: Sequence[SampleRow], fields: Fields, said: Sequence[str]) -> tuple[tuple[str, ...], str]:
    kinds, able = fields.all, fields.of(LIKELY_KEYS)
    if not said and _is_debezium(rows):
        raise UsageError(
            "the events are Debezium envelopes, whose key is inside 'before' and 'after': examples/changes has a "
            "job over them. Or let the connector unwrap them (transforms: ExtractNewRecordState), or name a field "
            "with --key"
        )
    for one in said:
        needed = "text, a whole number, a decimal, a boolean, a date or a UUID"
        require_field(one, fields, kinds.get(one) in KEYS, rows, f"key: that is {needed}")
    if len(set(said)) > KEY_COLUMNS_MAX:
        raise UsageError(f"the key has {len(set(said))} columns; allowed are {KEY_COLUMNS_MAX}")
    if said:
        return tuple(dict.fromkeys(said)), f"as you said; {_distinct_text(rows, said)}"
    if not able:
        text = f"no field can be the key: of {fields.text} none is text or whole number"
        raise UsageError(f"{text}{inner_hint(rows, fields)}")
    best = max(able, key=lambda name: (_key_score(rows, kinds, name), -able.index(name)))
    same = ", and equal to the record's key" if _equals_record_key(rows, best) else ""
    return (best,), f"{_distinct_text(rows, [best])}{same}{_beside(able, best)}"


def _key_score(rows: Sequence[SampleRow], kinds: Mapping[str, str], name: str) -> float:
    """Return a score, higher for likelier keys. A key repeats, is always present, often as the record's key."""
    different, present = count_distinct(rows, [name]), present_share(rows, name)
    unique = different / max(1, round(present * len(rows)))
    score = 20 * present + 10 * (1 - unique)
    score += 100 if _equals_record_key(rows, name) else 0
    hinted = bool(_KEYISH.search(_snake(last_word(name))))
    score += 10 if hinted else (0 if kinds[name] == "string" else -10)
    # A constant is no key, and a value that differs in each event identifies the event.
    return score - (20 if different <= 1 else 0) - (40 if unique > 0.9 and len(rows) >= 20 else 0)


def _equals_record_key(rows: Sequence[SampleRow], name: str) -> bool:
    keyed = [row for row in rows if row.key is not None and row.event.get(name) is not None]
    return len(keyed) >= 0.9 * len(rows) > 0 and all(row.key == str(row.event[name]) for row in keyed)


def _timed(rows: Sequence[SampleRow], name: str, kind: str) -> list[tuple[SampleRow, int]]:
    """Return the rows with a plausible event time: the right unit, in the accepted years."""
    found = []
    for row in rows:
        at = time_ms(row.event.get(name), kind)
        if at is None or not YEARS[0] <= at * 1_000 <= YEARS[1]:
            continue
        written = row.timestamp_ms
        number = at * 1_000 if kind == "timestamp-micros" else at
        if written is None or at >= written - MAX_BEHIND_MS or not unit_hint(number, kind):
            found.append((row, at))
    return found


def _bound(distances: Sequence[int], default: int) -> int:
    """Return twice the BOUND_SHARE quantile of the distances, or the default if they are within it."""
    most = sorted(distances)[int((len(distances) - 1) * BOUND_SHARE)] if distances else 0
    return default if most <= default else _rounded(most * SAFETY)


def _within(row: SampleRow, at: int, ahead: int, behind: int) -> bool:
    written = row.timestamp_ms
    return written is None or (at <= written + ahead and (written >= NO_DATE_MS or at >= written - behind))


def _window(timed: Sequence[tuple[SampleRow, int]], key: Sequence[str]) -> tuple[int, str]:
    known = [at for _, at in timed]
    spread = max(known) - min(known) if known else 0
    keys = max(1, count_distinct([row for row, _ in timed], key))
    if spread <= 0:
        return MINUTE, "the samples span no time: choose what suits you"
    per_ms = len(known) / keys / spread
    for size in _WINDOWS:
        if per_ms * size >= EVENTS_PER_WINDOW:
            return size, f"about {per_ms * size:,.0f} events of one key in each, by the samples"
    return HOUR, f"about {per_ms * HOUR:.2g} events of one key in each, by the samples"


def _lateness(timed: Sequence[tuple[SampleRow, int]]) -> tuple[int, str]:
    """Return a lateness by how far events are behind newer ones, per partition and by record timestamp."""
    by_log = sorted(timed, key=lambda one: (one[0].partition, one[0].offset))
    by_time = sorted(timed, key=lambda one: (one[0].timestamp_ms or 0, one[0].partition, one[0].offset))
    behind = sorted([*_behind(by_log, apart=True), *_behind(by_time, apart=False)])
    if not behind:
        return MINUTE, "no sample has a time: choose what suits you"
    rank = min(len(behind) - 1, math.ceil(QUANTILE * len(behind)) - 1)
    seen = behind[rank]
    chosen = _rounded(max(seen * SAFETY, 10 * SECOND))
    return (
        chosen,
        f"{QUANTILE:.1%} of the samples arrived at most {seen / 1_000:,.10g} s behind; twice that",
    )


def _behind(rows: Sequence[tuple[SampleRow, int]], apart: bool) -> Iterator[int]:
    newest: dict[int, int] = {}
    for row, at in rows:
        place = row.partition if apart else 0
        newest[place] = max(at, newest.get(place, at))
        yield newest[place] - at


def _measured(rows: Sequence[SampleRow], fields: Fields, taken: set[str]) -> tuple[list[str], list[str]]:
    """Return some numbers, and a text that repeats, all of the first place that has one.

    None of an array: without the element an event is rejected.
    """
    for part in fields.by_place:
        free = {name: kind for name, kind in part.items() if name not in taken and _is_measurable(name)}
        numbers = [one for one in free if free[one] in NUMBERS and not _KEYISH.search(_snake(last_word(one)))]
        repeat = [
            one for one in free if free[one] == "string" and 2 <= count_distinct(rows, [one]) <= len(rows) / 2
        ]
        if numbers or repeat:
            return numbers[:_MEASURED_MAX], repeat[:1]
    return [], []


def _is_measurable(name: str) -> bool:
    steps = steps_of(name)
    return all(isinstance(one, str) for one in steps) and (len(steps) > 1 or len(name) <= COLUMN_CHARS_MAX)


def _measures(
    numbers: Sequence[str], texts: Sequence[str], columns: Iterable[str]
) -> dict[str, tuple[str, str | None]]:
    """Return a count, sum and max of the numbers, and the distinct values of the text. `columns`: names that no
    measure may have."""
    taken = {one.lower() for one in columns}
    able = itertools.chain([COUNT], (f"{COUNT}_{number}" for number in itertools.count(2)))
    counted = next(one for one in able if one not in taken)
    made: dict[str, tuple[str, str | None]] = {counted: ("count", None)}
    for name in numbers:
        made |= {f"total_{name}": ("sum", name), f"max_{name}": ("max", name)}
    made |= {f"distinct_{name}": ("distinct", name) for name in texts}
    # Spark does not distinguish names by case.
    first = {name.lower(): name for name in reversed(list(made))}
    return {name: one for name, one in made.items() if first[name.lower()] == name and name.lower() not in taken}


def _distinct_text(rows: Sequence[SampleRow], names: Sequence[str]) -> str:
    return f"{count_distinct(rows, names):,} different values in {len(rows):,} samples"


def _beside(able: Sequence[str], chosen: str) -> str:
    others = [name for name in able if name != chosen][:5]
    return f"; also possible: {', '.join(others)}" if others else ""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _rounded(ms: int) -> int:
    return next((one for one in _ROUND if one >= ms), _ROUND[-1])


def duration(ms: int) -> str:
    for unit, size in (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)):
        if ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"
