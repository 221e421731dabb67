"""Events as Spark reads them, in the words of the readers without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from cutwater.core.events.formats import WriterSchema
from cutwater.core.events.rejection import Flaw
from cutwater.core.job.job import Job
from cutwater_spark.query.formats import with_events

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(
    spark: SparkSession, job: Job, values: Sequence[bytes | None], known: Sequence[WriterSchema]
) -> list[Any]:
    """Per value the event, or its flaw."""
    rows = [(number, None if one is None else bytearray(one)) for number, one in enumerate(values)]
    raw = spark.createDataFrame(rows, "number int, value binary").coalesce(1)
    frame = with_events(raw, job, known, explained=True).sort("number")
    return [
        Flaw(row["__reason"], row["__flaw"]["rule"], row["__flaw"]["field"])
        if row["__reason"]
        else _plain(row["event"].asDict(recursive=True))
        for row in frame.select("event", "__reason", "__flaw").collect()
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
    return bytes(value) if isinstance(value, bytearray) else value


def shown(found: Any) -> str:
    """As text, in which NaN is equal to itself."""
    return json.dumps(found, sort_keys=True, default=repr)
