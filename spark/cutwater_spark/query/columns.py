"""A user's own query as rows of a changelog, with its columns and plan checked against the job file."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cutwater.core.errors import UsageError
from cutwater.core.events.rejection import MAX_KEY_BYTES, YEARS
from cutwater.core.job.job import Attached, Job
from cutwater.core.job.measures import TIMES, FieldType, Measure
from cutwater.core.job.row_room import text_bytes_max
from cutwater_spark.query.sql import name, text

_KEYS = ("string", "int", "bigint")
_WINDOW = "struct<start:timestamp,end:timestamp>"
_TYPES = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "timestamp": "timestamp-micros",
}
_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
UNREADABLE = "cutwater_unreadable"
"""Name of the observation that counts the dropped rows."""
_EPOCH = datetime(1970, 1, 1)
_MOMENTS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The start of year 1 and the end of 9999 in microseconds: the range of Python and of JSON readers."""


def rows(frame: DataFrame, job: Job, query: Attached) -> DataFrame:
    """Return the query's columns for the changelog. Raise UsageError if frame and job file do not fit."""
    require_attachable(frame, query)
    found = value_types(frame, query)
    for measure in job.measures:
        if measure.name not in found:
            raise UsageError(f"job {job.name}: the query has no column '{measure.name}'; {_again(found)}")
        if not _fits(found.pop(measure.name), measure.output):
            raise UsageError(f"job {job.name}: column '{measure.name}' is not {measure.output}; {_again({})}")
    if found:
        raise UsageError(f"job {job.name}: {', '.join(found)} are not in the schema; {_again({})}, or drop them")
    if query.drops_unreadable:
        readable = readable_rows(job, query)
        # The observation keeps the filter above it: the query is computed once.
        frame = frame.observe(UNREADABLE, F.expr(f"count_if(not ({readable})) as dropped")).filter(readable)
    return frame.selectExpr(*row_columns(job, query))


def readable_rows(job: Job, query: Attached) -> str:
    """Return the condition, never null, under which a row of the right window size does not end the query."""
    bytes_max = text_bytes_max(job.measures)
    found = [
        _is_readable(f"cast({name(query.key)} as string)", MAX_KEY_BYTES),
        _is_dated(f"{name(query.window)}.start", YEARS),
    ]
    for one in job.measures:
        if one.output == "string":
            found.append(f"({name(one.name)} is null or {_is_readable(name(one.name), bytes_max)})")
        elif isinstance(one.output, dict) and one.output["logicalType"] in TIMES:
            found.append(f"({name(one.name)} is null or {_is_dated(name(one.name), _MOMENTS)})")
    return f"coalesce({' and '.join(found)}, false)"


def _is_readable(sql: str, bytes_max: int) -> str:
    return f"(octet_length({sql}) <= {bytes_max} and is_valid_utf8({sql}))"


def _is_dated(sql: str, moments: tuple[int, int]) -> str:
    return f"(unix_micros({sql}) between {moments[0]}L and {moments[1]}L)"


def row_columns(job: Job, query: Attached) -> list[str]:
    """Return the columns as SQL; a value that no reader could decode ends the query before it is written."""
    size, key, window = job.window.size_ms, name(query.key), name(query.window)
    long = f"unix_millis({window}.end) - unix_millis({window}.start)"
    wrong_size = f"cutwater: the job file says windows of {size} ms, but the query makes others"
    no_key = f"cutwater: column {query.key} is null, so the row has no key: filter such events in the query"
    start = _dated(f"{window}.start", query.window, YEARS)
    return [
        f"if({long} = {size}L and {start} is not null, {window}, raise_error({text(wrong_size)})) as __window",
        f"coalesce({_readable(f'cast({key} as string)', query.key, MAX_KEY_BYTES)}, raise_error({text(no_key)})) "
        "as __key",
        *(f"{_value(one, text_bytes_max(job.measures))} as {name(one.name)}" for one in job.measures),
    ]


def _value(measure: Measure, bytes_max: int) -> str:
    kind = measure.output
    if kind == "string":
        return _readable(name(measure.name), measure.name, bytes_max)
    if isinstance(kind, dict) and kind["logicalType"] in TIMES:
        return _dated(name(measure.name), measure.name, _MOMENTS)
    return name(measure.name)


def _readable(sql: str, column: str, bytes_max: int) -> str:
    no_text = (
        f"cutwater: column {column} has a text that is not UTF-8, which no reader can decode: filter such events"
    )
    long = f"cutwater: column {column} has a text of more than {bytes_max} bytes: filter such events in the query"
    checked = f"if(is_valid_utf8({sql}), {sql}, raise_error({text(no_text)}))"
    checked = f"if(octet_length({sql}) > {bytes_max}, raise_error({text(long)}), {checked})"
    return f"case when {sql} is not null then {checked} end"


def _dated(sql: str, column: str, moments: tuple[int, int]) -> str:
    """Return a checked time: Spark's times reach from 290,308 BC to 294,247, readers' do not."""
    far = (
        f"cutwater: column {column} has a time outside the years {_year(moments[0])} to {_year(moments[1] - 1)}, "
        "which no reader can decode: filter such events in the query"
    )
    return f"case when {sql} is not null then if({_is_dated(sql, moments)}, {sql}, raise_error({text(far)})) end"


def _year(micros: int) -> int:
    return (_EPOCH + timedelta(microseconds=micros)).year


def require_attachable(frame: DataFrame, query: Attached) -> None:
    """Raise UsageError unless it is a streaming aggregation by one event-time window and one key."""
    if not frame.isStreaming:
        raise UsageError("the DataFrame is not streaming. Read its events with spark.readStream")
    types = dict(frame.dtypes)
    if types.get(query.window) != _WINDOW:
        raise UsageError(
            f"the query has no window column '{query.window}' (a struct of start and end): this version "
            "needs event-time windows, since there is no horizon without them. Group by window(event_time, ...) "
            "and select the column"
        )
    if types.get(query.key) not in _KEYS:
        raise UsageError(
            f"the key column '{query.key}' is {types.get(query.key, 'missing')}; allowed: {', '.join(_KEYS)}. "
            "Combine several columns into one text before grouping"
        )
    _require_plan(frame, query)


def value_types(frame: DataFrame, query: Attached) -> dict[str, FieldType]:
    """Return the types of the other columns, in their order. Raise UsageError for a type that is not allowed."""
    found = {}
    for column, kind in frame.dtypes:
        if column in (query.key, query.window):
            continue
        if decimal := _DECIMAL.fullmatch(kind):
            found[column] = FieldType("decimal", int(decimal[1]), int(decimal[2]))
        elif kind in _TYPES:
            found[column] = FieldType(_TYPES[kind])
        else:
            allowed = ", ".join([*_TYPES, "decimal"])
            raise UsageError(f"column '{column}' is {kind}; allowed: {allowed}. Cast it, or leave it out")
    return found


_WATERMARK_KEY = "spark.watermarkDelayMs"
_WATERMARK = re.compile(r"EventTimeWatermark (?:[0-9a-f-]{36}, )?`?([^#`]+)`?#")
_WINDOW_OF = re.compile(r"precisetimestampconversion\(\(+precisetimestampconversion\((.*?), TimestampType")
_PLAN_MARKS = re.compile(r"#[0-9]+(?:-T[0-9]+ms)?")
"""The marks after a column's name in Spark's plan: a number, and the delay of its watermark."""
_ABOVE = frozenset({"Project", "Filter", "SubqueryAlias"})


def _require_plan(frame: DataFrame, query: Attached) -> None:
    jvm: Any = frame._jdf
    plan = jvm.queryExecution().analyzed()
    if "EventTimeWatermark" not in plan.toString():
        raise UsageError("the query has no watermark, so no window would ever close. Call withWatermark")
    while plan.nodeName() != "Aggregate":
        # Nodes above may select columns and rows, but not multiply rows: a key and window name one row.
        if plan.children().size() != 1 or plan.nodeName() not in _ABOVE:
            raise UsageError(
                "no aggregation is on top of the query. Attach the result of groupBy(...).agg(...), joins below it"
            )
        plan = plan.children().apply(0)
    below = plan.children().apply(0).toString()
    keys = [plan.groupingExpressions().apply(number) for number in range(plan.groupingExpressions().size())]
    if any("session_window" in one.toString() for one in keys):
        raise UsageError("session windows are not supported: a session's bounds change while it is open")
    if len(keys) != 2:
        raise UsageError(
            f"the query groups by {len(keys)} columns, but a row is named by '{query.window}' and '{query.key}' "
            "alone. Combine several key columns into one text, as in concat_ws('|', a, b)"
        )
    if not any(_marked(one) for one in keys):
        marked, of = ", ".join(dict.fromkeys(_WATERMARK.findall(below))), _WINDOW_OF.search(below)
        column = _PLAN_MARKS.sub("", of[1]) if of else "another column"
        raise UsageError(
            f"the watermark is on '{marked}', but '{query.window}' is a window of '{column}': Spark would "
            f"never close a window, and events would be in the view but not in a final output. Use "
            f"withWatermark('{column}', ...), and make the windows of that column unchanged"
        )


def _marked(key: Any) -> bool:
    """Return whether Spark closes windows by this column of the grouping: its metadata says so."""
    return key.nodeName() == "AttributeReference" and bool(key.metadata().contains(_WATERMARK_KEY))


def _fits(found: FieldType, wanted: Any) -> bool:
    if found.name in TIMES:
        return bool(isinstance(wanted, dict) and wanted.get("logicalType") in TIMES)
    return bool(found.avro == wanted)


def _again(found: dict[str, FieldType]) -> str:
    there = f"it has {', '.join(found)}; " if found else ""
    return f"{there}write the files again with describe() for a new job"
