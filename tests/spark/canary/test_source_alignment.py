"""Epochs that end at given cuts, by fields of Spark's Kafka source that are no public interface."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater_spark.canary.source_alignment import set_end
from cutwater_spark.checkpoint import Checkpoint
from cutwater_spark.epoch.source_limit import set_limit
from cutwater_spark.query.query import read_events
from support.events import counting
from support.harness import wait_until

pytestmark = pytest.mark.slow


def test_the_next_batches_end_at_a_cut_and_then_at_the_end(
    broker: Any, spark: SparkSession, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """It waits at the cut, however many events come, and a limit of rows is kept on the way."""
    (tmp_path / "job.yaml").write_text(counting.job_text(unique("aligned"), per_epoch=100_000))
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    job = load_job(tmp_path / "job.yaml")
    ensure_topics(broker.cluster, [topics.events(job.topic, 2)])
    writer = EventWriter(broker.cluster, job, None)
    writer.write_all(counting.events(1_000))
    checkpoint = Checkpoint(spark, str(tmp_path / "checkpoint"))
    cuts: list[Cut] = []
    ends = [Cut.of_topic(job.topic, [100, 70]), Cut.of_topic(job.topic, [100, 150])]

    def batch(frame: Any, epoch: int) -> None:
        frame.count()
        cuts.append(checkpoint.plan(epoch).source_cut)
        if epoch == 0:
            set_limit(spark, query, 10_000)
        if epoch < len(ends):
            assert set_end(spark, query, cuts[-1], ends[epoch])

    raw = read_events(spark, job, broker.cluster, limit=1)
    started = raw.writeStream.option("checkpointLocation", checkpoint.location).foreachBatch(batch)
    query = started.trigger(processingTime="100 milliseconds").start()

    def reached(end: Cut) -> Any:
        return query.exception() or (bool(cuts) and cuts[-1] == end)

    try:
        wait_until(lambda: reached(ends[-1]), "the last cut", 120)
        assert query.exception() is None
        assert cuts == [Cut.of_topic(job.topic, [1, 1]), *ends]
        writer.write_all(counting.events(300))
        asked = len(query.recentProgress)
        wait_until(lambda: len(query.recentProgress) > asked or query.exception(), "Spark to ask again", 120)
        assert cuts[-1] == ends[-1], "it waits"
        assert set_end(spark, query, cuts[-1], None)
        wait_until(lambda: query.exception() or cuts[-1].records == 1_300, "all events", 120)
        assert query.exception() is None
    finally:
        query.stop()
