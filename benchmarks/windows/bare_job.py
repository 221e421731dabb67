"""The job's query with Spark's Kafka sink and nothing else: what one would have without Cutwater's protocol.

python benchmarks/windows/bare_job.py JOBFILE TOPIC

The same rows with the same bytes go to the same partitions by the same producer; no headers that name their
epoch, no count and digest, no proof, no barrier. Takes the driver's settings from the environment. Runs until
SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.windows.noop_job import start
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.changelog_rows import Writer
from cutwater_spark.epoch.changelog_sink import sink_options
from cutwater_spark.query.query import row_expressions
from cutwater_spark.session import open_session


def to_topic(job: Job, writer: Writer, options: dict[str, str]) -> Callable[[DataFrame, int], None]:
    """`foreachBatch` of the bare sink."""
    every = row_expressions(job, writer, Codec(job.state_schema).header)
    rows = [one for one in every if not one.endswith(" as headers")]

    def write(aggregates: DataFrame, _epoch: int) -> None:
        aggregates.selectExpr(*rows).write.format("kafka").mode("append").options(**options).save()

    return write


def main(arguments: list[str]) -> None:
    job, settings = load_job(Path(arguments[0])), load_settings()
    if settings.checkpoint is None:
        raise UsageError("CUTWATER_CHECKPOINT must name the checkpoint's location")
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    spark = open_session(job, settings, settings.checkpoint)
    options = sink_options(settings.cluster, arguments[1])
    query = start(
        spark, job, settings, settings.checkpoint, to_topic(job, Writer(settings.generation, 1, 0), options)
    )
    while not told.is_set():
        if query.awaitTermination(0.2):
            raise SystemExit("the query ended by itself")
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
