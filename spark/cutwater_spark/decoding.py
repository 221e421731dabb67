"""From a Kafka record to an event, or to the reason why there is none: native expressions only."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from cutwater.adapters.jobschema import field_types
from cutwater.core import rejection
from cutwater.core.formats import WriterSchema
from cutwater.core.job import Job
from cutwater.core.measures import TIMES
from cutwater.core.sources import Sources
from cutwater_spark.formats import EVENT, REASON, with_events
from cutwater_spark.sources import OFFSET, placing
from cutwater_spark.sql import name, text

_WHOLE, _WHY = "__whole", "__why"
# Further out, a window of a century could begin or end outside the years 1 to 9999, which is all that readers in
# Python hold; and far outside of them Spark's own arithmetic overflows, which would end the query for ever.
_FIRST_TIME, _LAST_TIME = "0200-01-01 00:00:00", "9800-01-01 00:00:00"


def decode(raw: DataFrame, job: Job, known: Sequence[WriterSchema], sources: Sources) -> DataFrame:
    """Raw Kafka records, where each stands in the order, and two columns more, of which exactly one is null.

    `event` is a struct of the job's event schema, `__reason` a word of `cutwater.core.rejection`. `known` are the
    schemas that events may be written with.
    """
    raw = raw.selectExpr("*", *placing(sources))
    unplaced = f"when {OFFSET} is null then {text(rejection.NO_SOURCE_OFFSET)}" if sources.copies else ""
    # Milliseconds, as Kafka's: a producer may give a timestamp so large that an interval more would overflow.
    key, time = (f"{EVENT}.{name(field)}" for field in (job.key_field, job.time_field))
    reason = f"""case {unplaced}
        when octet_length(value) > {job.max_event_bytes} then {text(rejection.TOO_LARGE)}
        when {REASON} is not null then {REASON}
        when {key} is null then {text(rejection.NO_KEY)}
        when {time} is null then {text(rejection.NO_EVENT_TIME)}
        when {_out_of_range(job)} then {text(rejection.UNDECODABLE)}
        when unix_millis({time}) > unix_millis(timestamp) + {job.max_ahead_ms}L
            then {text(rejection.TOO_FAR_AHEAD)} end"""
    columns = [name(column) for column in raw.columns]
    found = with_events(raw, job, known)
    judged = found.selectExpr(*columns, f"{EVENT} as {_WHOLE}", f"{reason} as {_WHY}")
    return judged.selectExpr(
        *columns, f"case when {_WHY} is null then {_WHOLE} end as {EVENT}", f"{_WHY} as {REASON}"
    )


def _out_of_range(job: Job) -> str:
    """Is a time of the event's own fields one that a measure could carry to readers that cannot hold it?"""
    kinds = field_types(job.event_schema)
    fields = [f"{EVENT}.{name(field)}" for field, kind in kinds.items() if kind.name in TIMES]
    range_ = f"timestamp'{_FIRST_TIME}' and timestamp'{_LAST_TIME}'"
    return " or ".join(f"coalesce({field} not between {range_}, false)" for field in fields)
