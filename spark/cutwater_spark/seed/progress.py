"""Progress lines while the driver takes over its parent's state: rows, rate and time left, every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from cutwater.core.util.progress_rate import EVERY_S, ProgressRate, Rate
from cutwater_spark import jvm

MISSES_MAX = 5
"""Failed queries in a row after which the lines end."""
JOIN_S = 10.0
_CONSUMERS = "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*"
_CONSUMED = "records-consumed-total"
Row = TypeVar("Row")


@contextmanager
def log_progress(
    log: Any, what: str, total: int | None, spark: SparkSession, every_s: float = EVERY_S
) -> Iterator[None]:
    """Log Spark's progress in reading from Kafka while the block runs. An error ends the lines, not the block."""
    over = threading.Event()

    def log_line() -> None:
        try:
            before, missed, seen = _records_consumed(spark), 0, 0
            rated = ProgressRate(total, time.monotonic(), every_s)
            while not over.wait(every_s):
                try:
                    seen, missed = max(seen, _records_consumed(spark) - before), 0
                except Py4JError:  # mostly a consumer that was closed during the query
                    missed += 1
                    if missed > MISSES_MAX:
                        raise
                told = rated.next_line(seen, time.monotonic())
                if told is not None:
                    _log_rate(log, what, told, total, tasks=_tasks(spark))
        except (Py4JError, OSError) as error:
            log.info("the progress is not known", of=what, reason=str(error)[:200])

    thread = threading.Thread(target=log_line, name="telling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(JOIN_S)


def log_rows(
    rows: Iterable[Row],
    log: Any,
    what: str,
    every_s: float = EVERY_S,
    clock_s: Callable[[], float] = time.monotonic,
) -> Iterator[Row]:
    """Yield the same rows and log their number so far; the total is not known."""
    rated = ProgressRate(None, clock_s(), every_s)
    for count, row in enumerate(rows):
        if not count % 1_000 and (rate := rated.next_line(count, clock_s())) is not None:
            _log_rate(log, what, rate, None)
        yield row


def _log_rate(log: Any, what: str, rate: Rate, total: int | None, **more: Any) -> None:
    left = {} if rate.left_s is None else {"seconds_left_at_most": round(rate.left_s)}
    most = {} if total is None else {"of_at_most": total}
    log.info(what, rows=rate.done, rows_per_s=round(rate.per_s), **most, **left, **more)


def _records_consumed(spark: SparkSession) -> int:
    """Return the records that this JVM's consumers have read; 0 if the executors run elsewhere."""
    return sum(int(jvm.attribute(spark, name, _CONSUMED)) for name in jvm.mbean_names(spark, _CONSUMERS))


def _tasks(spark: SparkSession) -> str:
    """Return the completed tasks of the active stages: `3/8` is 3 of 8."""
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    stages = [one for one in infos if one is not None]
    return f"{sum(one.numCompletedTasks for one in stages)}/{sum(one.numTasks for one in stages)}"
