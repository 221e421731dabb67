"""What the driver says while it takes over its parent's state: every few seconds rows, rate and time left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from cutwater.core.util.progress_rate import EVERY_S, Rate, Rated
from cutwater_spark import jvm

MISSES_MAX = 5
"""So many looks in a row may fail."""
JOIN_S = 10.0
_CONSUMERS = "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*"
_CONSUMED = "records-consumed-total"
Row = TypeVar("Row")


@contextmanager
def telling(
    log: Any, what: str, total: int | None, spark: SparkSession, every_s: float = EVERY_S
) -> Iterator[None]:
    """Say how far Spark is with what it reads from Kafka and computes while the block lasts.

    Whatever goes wrong with that ends the lines, and never what they are about.
    """
    over = threading.Event()

    def tell() -> None:
        try:
            before, missed, seen = _consumed(spark), 0, 0
            rated = Rated(total, time.monotonic(), every_s)
            while not over.wait(every_s):
                try:
                    seen, missed = max(seen, _consumed(spark) - before), 0
                except Py4JError:  # a consumer was closed while it was asked, mostly
                    missed += 1
                    if missed > MISSES_MAX:
                        raise
                told = rated.look(seen, time.monotonic())
                if told is not None:
                    _say(log, what, told, total, tasks=_tasks(spark))
        except (Py4JError, OSError) as error:
            log.info("how far it is cannot be told", of=what, reason=str(error)[:200])

    thread = threading.Thread(target=tell, name="telling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(JOIN_S)


def told(
    rows: Iterable[Row],
    log: Any,
    what: str,
    every_s: float = EVERY_S,
    clock_s: Callable[[], float] = time.monotonic,
) -> Iterator[Row]:
    """The same rows, and how many they are so far; nobody knows how many there will be."""
    rated = Rated(None, clock_s(), every_s)
    for count, row in enumerate(rows):
        if not count % 1_000 and (rate := rated.look(count, clock_s())) is not None:
            _say(log, what, rate, None)
        yield row


def _say(log: Any, what: str, rate: Rate, total: int | None, **more: Any) -> None:
    left = {} if rate.left_s is None else {"seconds_left_at_most": round(rate.left_s)}
    most = {} if total is None else {"of_at_most": total}
    log.info(what, rows=rate.done, rows_per_s=round(rate.per_s), **most, **left, **more)


def _consumed(spark: SparkSession) -> int:
    """Records that this JVM's consumers have read by now. Executors elsewhere count their own: 0 then."""
    return sum(int(jvm.attribute(spark, name, _CONSUMED)) for name in jvm.named(spark, _CONSUMERS))


def _tasks(spark: SparkSession) -> str:
    """Of the stages that Spark works on now: `3/8` is 3 done of 8."""
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    stages = [one for one in infos if one is not None]
    return f"{sum(one.numCompletedTasks for one in stages)}/{sum(one.numTasks for one in stages)}"
