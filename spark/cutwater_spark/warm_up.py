"""The driver's query on one record of its own, while fencing and checkpoint are at work.

A JVM's first epoch loads classes, plans and compiles code that it has never run, and unpacks RocksDB's library.
Much of that is done here, on a core that would be idle.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cutwater.core.events.formats import WriterSchema
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import Job
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.generation import Generation
from cutwater_spark.query.query import aggregate, changelog_rows, decode

END_S = 10.0
NOBODY = Writer(Generation(1, "warm-up"), 1, 0)


def kafka_rows(frame: DataFrame, topic: str, value: bytes, offset: str) -> DataFrame:
    """Return a row of each of the frame's as Spark's Kafka source has it. `offset`: the column of the offsets."""
    return frame.selectExpr(
        "X'6b6579' as key",
        f"X'{value.hex()}' as value",
        f"'{topic}' as topic",
        "0 as partition",
        f"{offset} as offset",
        "timestamp",
        "0 as timestampType",
    )


class WarmUp:
    """Runs in a thread. It writes nothing, and an error of it is no error of the driver."""

    def __init__(self, session: SparkSession, job: Job, known: Sequence[WriterSchema], log: Any) -> None:
        self._session, self._job, self._known, self._log = session, job, known, log
        self._thread = threading.Thread(target=self._run, name="warm-up", daemon=True)

    def __enter__(self) -> WarmUp:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._thread.join(END_S)

    def _run(self) -> None:
        try:
            self._session._jvm.org.rocksdb.RocksDB.loadLibrary()
            if self._job.transform is None:  # a user's function may read tables
                self._count()
        except (Py4JError, PySparkException, OSError) as error:
            self._log.info("the first epoch starts cold", error=str(error)[:300])

    def _count(self) -> None:
        job = self._job
        one = self._session.range(1).selectExpr("id", "current_timestamp() as timestamp")
        events = decode(kafka_rows(one, job.topic, b"", "id"), job, self._known, only(job.topic, ""))
        rows = changelog_rows(aggregate(events, job), job, NOBODY, b"")
        rows.write.format("noop").mode("overwrite").save()
