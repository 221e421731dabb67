"""From a Kafka record to an event or a reason of rejection: native expressions only.

Values that the changelog, its readers or a measure could not hold are rejected here, before the grouping: a later
error would recur at each start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame

from cutwater.core.events import rejection
from cutwater.core.events.formats import WriterSchema
from cutwater.core.events.key_columns import DATE, UUID
from cutwater.core.generations.source_topics import Sources
from cutwater.core.job.job import Job
from cutwater.core.job.measures import TIMES, FieldType
from cutwater.core.job.row_room import too_long
from cutwater_spark.query import computed_columns
from cutwater_spark.query.computed_columns import ELEMENTS, INDEX
from cutwater_spark.query.formats import EVENT, REASON, REMARK, with_events
from cutwater_spark.query.rejection_reasons import FLAW, Flaw, cases, flaw, number_of, rule_struct, unit_hint
from cutwater_spark.query.sources import OFFSET, source_columns
from cutwater_spark.query.sql import key_text_of, name, text

LEFT_OUT = "__left_out"
USED = f"__reason is null and not {LEFT_OUT}"
"""Whether a judged event counts, as SQL."""
_WHOLE, _WHY, _NOT_KEPT, _FOUND = "__whole", "__why", "__not_kept", "__found"
_UUID = r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\z"
_DATES = "date'0001-01-01' and date'9999-12-31'"
# Further out, a window of a century could reach beyond the years 1 to 9999, which Python readers cannot hold. Far
# outside of them Spark's arithmetic overflows, which would end the query at each start.
_FIRST_TIME, _LAST_TIME = "0200-01-01 00:00:00", "9800-01-01 00:00:00"


def decode(
    raw: DataFrame, job: Job, known: Sequence[WriterSchema], sources: Sources, explained: bool = False
) -> DataFrame:
    """Return the raw Kafka records with their place in the order and more columns.

    `event` is a struct of the job's event schema and columns, `__reason` a reason of
    `cutwater.core.events.rejection`; exactly one is null. Both are if the job's condition leaves the event out,
    which `__left_out` tells. If the elements of an array are the events, `__elements` is an array of structs:
    index and columns of each that counts. `__remark`: whether the event was read in part (`formats.with_events`).
    `known`: the schemas that events may be written with. `explained`: add `__flaw`, field and rule of a rejected
    event, which is too costly for each event of the stream.
    """
    if job.upstream:
        raw = raw.where("key is not null")  # else it is an end marker of a milestone
    raw = raw.selectExpr("*", *source_columns(sources))
    columns = [name(column) for column in raw.columns]
    found = with_events(raw, job, known, explained)
    of_expressions: list[Flaw] = []
    if job.has_expressions:
        found = computed_columns.with_computed_columns(found, job, explained)
        of_expressions = computed_columns.expression_flaws(job, explained)
    flaws = [*_of_record(job, bool(sources.copies)), *of_expressions, *_of_event(job)]
    about = [f"{cases(flaws, lambda one: one.detail)} as {FLAW}"] if explained else []
    elements = [f"{ELEMENTS}.found as {_FOUND}"] if job.explode else []
    why = f"{cases(flaws, lambda one: one.reason)} as {_WHY}"
    not_kept = f"{computed_columns.not_kept(job)} as {_NOT_KEPT}"
    whole = f"{computed_columns.event_with_columns(job)} as {_WHOLE}"
    judged = found.selectExpr(*columns, whole, why, REMARK, not_kept, *elements, *about)
    is_used = f"{_WHY} is null and not {_NOT_KEPT}"
    dropped = f"{_WHY} is null and {_NOT_KEPT} as {LEFT_OUT}"
    event = f"case when {is_used} then {_WHOLE} end as {EVENT}"
    shown = (event, f"{_WHY} as {REASON}", f"{is_used} and {REMARK} as {REMARK}", dropped)
    if job.explode:
        elements = [f"case when {is_used} then {_FOUND} end as {ELEMENTS}"]
    return judged.selectExpr(*columns, *shown, *elements, *([FLAW] if explained else []))


def record_key(job: Job) -> str:
    """Return the key of a judged record that counts, as SQL: if elements have it, that of the first."""
    return key_text_of(job, [_of_first(job, one) for one in job.key_fields])


def _of_first(job: Job, field: str) -> str:
    if any(one.name == field for one in job.element_columns):
        return f"get({ELEMENTS}, 0).{name(field)}"
    return f"{EVENT}.{name(field)}"


def _of_record(job: Job, copied: bool) -> Iterator[Flaw]:
    if copied:
        yield flaw(f"{OFFSET} is null", rejection.NO_SOURCE_OFFSET, "no header has its offset in the other region")
    size = f"concat(octet_length(value), ' bytes, and max_event_bytes is {job.max_event_bytes}')"
    yield Flaw(f"octet_length(value) > {job.max_event_bytes}", text(rejection.TOO_LARGE), rule_struct(size))
    yield Flaw(f"{REASON} is not null", REASON, FLAW)


def _of_event(job: Job) -> Iterator[Flaw]:
    values = computed_columns.value_sqls(job)
    own = {one.name for one in job.element_columns}
    if not own.intersection(job.key_fields):
        yield from _of_key(job, values)
    time = values[job.time_field]
    yield flaw(f"{time} is null", rejection.NO_EVENT_TIME, rejection.NULL_RULE, job.time_field)
    yield from _of_values(computed_columns.usable_types(job), values)
    yield from _too_far(job, time)
    yield from _no_room(job, values)
    if job.explode:
        yield _of_elements(job, values)
    if job.held_ms is not None:
        # Last: any other reason has precedence.
        rule = f"is more than max_jump ({job.max_jump_ms} ms) ahead of all other event times"
        yield flaw(f"unix_millis({time}) >= {job.held_ms}L", rejection.JUMPS_AHEAD, rule, job.time_field)


def _of_elements(job: Job, values: Mapping[str, str]) -> Flaw:
    """Return the flaw of a record of which an element has one: the first element's, with its index in the rule."""
    own = {one.name: f"x.{name(one.name)}" for one in job.element_columns}
    flaws = [
        *(_of_key(job, {**values, **own}) if own.keys() & set(job.key_fields) else ()),
        *_of_values({one.name: one.type for one in job.element_columns}, own),
        *_no_room(job, own),
    ]
    if not flaws:
        return Flaw("false", "cast(null as string)", rule_struct("cast(null as string)"))
    reason = cases(flaws, lambda one: one.reason)
    detail = cases(flaws, lambda one: one.detail)
    said = f"concat('of element ', x.{INDEX}, ' ', d.rule)"
    detail = f"transform(array({detail}), d -> named_struct('field', d.field, 'rule', {said}))"
    first = f"get(filter({ELEMENTS}.found, x -> {reason} is not null), 0)"
    return Flaw(
        f"{first} is not null",
        f"get(transform(array({first}), x -> {reason}), 0)",
        f"get(get(transform(array({first}), x -> {detail}), 0), 0)",
    )


def _of_values(kinds: Mapping[str, FieldType], values: Mapping[str, str]) -> Iterator[Flaw]:
    for field, kind in kinds.items():
        value = values[field]
        if kind.name == "string":
            # Avro decodes any bytes; no reader could decode them in a key or value.
            no_text = f"coalesce(not is_valid_utf8({value}), false)"
            yield flaw(no_text, rejection.UNDECODABLE, rejection.TEXT_RULE, field)
        elif kind.name in TIMES:
            outside = f"{value} not between timestamp'{_FIRST_TIME}' and timestamp'{_LAST_TIME}'"
            rule = f"concat({text(rejection.YEARS_RULE)}, {unit_hint(number_of(value, kind.name), kind.name)})"
            yield Flaw(f"coalesce({outside}, false)", text(rejection.UNDECODABLE), rule_struct(rule, field))


def _of_key(job: Job, values: Mapping[str, str]) -> Iterator[Flaw]:
    for one in job.key_parts:
        if not one.nullable:
            yield flaw(f"{values[one.name]} is null", rejection.NO_KEY, rejection.NULL_RULE, one.name)
    computed = {*job.column_types, *(one.name for one in job.element_columns)}
    for one in job.key_parts:
        if one.kind == DATE:
            outside = f"coalesce({values[one.name]} not between {_DATES}, false)"
            yield flaw(outside, rejection.UNDECODABLE, rejection.DATES_RULE, one.name)
        elif one.kind == UUID and one.name in computed:
            no_uuid = f"coalesce({values[one.name]} not rlike {text(_UUID)}, false)"
            yield flaw(no_uuid, rejection.UNDECODABLE, rejection.UUID_RULE, one.name)
    key = key_text_of(job, [values[one] for one in job.key_fields])
    size = f"concat('has ', octet_length({key}), ' bytes, and a key may have {rejection.MAX_KEY_BYTES}')"
    too_large = f"octet_length({key}) > {rejection.MAX_KEY_BYTES}"
    yield Flaw(too_large, text(rejection.KEY_TOO_LARGE), rule_struct(size, ", ".join(job.key_fields)))


def _too_far(job: Job, time: str) -> Iterator[Flaw]:
    # Milliseconds, as Kafka's: adding an interval to a very large timestamp would overflow.
    at, written = f"unix_millis({time})", "unix_millis(timestamp)"
    shown = f"concat({time}, ' is more than %s %s its record''s timestamp, ', {written}, ' ms since 1970'%s)"
    ahead = shown % (f"max_ahead ({job.max_ahead_ms} ms)", "after", "")
    yield Flaw(
        f"{at} > {written} + {job.max_ahead_ms}L",
        text(rejection.TOO_FAR_AHEAD),
        rule_struct(ahead, job.time_field),
    )
    kind = "timestamp-micros" if job.time_micros else "timestamp-millis"
    hint = unit_hint(number_of(time, kind), kind)
    behind = shown % (f"max_behind ({job.max_behind_ms} ms)", "before", f", {hint}")
    dated = f"{written} < {rejection.NO_DATE_MS}L"
    yield Flaw(
        f"{dated} and {at} < {written} - {job.max_behind_ms}L",
        text(rejection.TOO_FAR_BEHIND),
        rule_struct(behind, job.time_field),
    )


def _no_room(job: Job, values: Mapping[str, str]) -> Iterator[Flaw]:
    """Yield what a measure could not hold: an overflow or too large a row would end the query at each start."""
    limits = {one.limit: one.name for one in job.counted_measures if one.limit and one.limit.field in values}
    for limit, measure in limits.items():
        value = values[limit.field]
        beyond = f"{value} is not null and try_cast({value} as {limit.type}) is null"
        rule = f"is beyond {limit.type}, which is what one event may add to measure '{measure}'"
        yield flaw(beyond, rejection.NO_ROOM, rule, limit.field)
    for field, (most, rule) in too_long(job).items():
        if field in values:
            yield flaw(f"octet_length({values[field]}) > {most}", rejection.NO_ROOM, rule, field)
