"""Where queries begin and stand in their sources: starting offsets, the offset log, what an epoch has seen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import structlog
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.core.driver.admission import Admission
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.errors import MachineError, ProtocolError, UnavailableError
from cutwater.core.generations.source_topics import Sources, only
from cutwater.core.generations.start_state import FIRST, StartState
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater_spark.checkpoint import Checkpoint, Seed, parse_plan
from cutwater_spark.epoch.source_limit import SourceLimit, set_limit
from cutwater_spark.query.query import read_events, seen_of, starting_offsets
from support.events import counting
from support.harness import wait_until

BOTH = Sources("e", "eu", {"e": 2, "e.from-us": 2})
"""Numbers 0 and 1 are the copy's."""
HEAD = 'v1\n{"batchWatermarkMs":7}\n'


def test_the_cut_is_over_all_kafka_sources() -> None:
    """Other sources are no part of it; of a partition that two sources read, the smaller offset counts."""
    lines = ['{"a":{"0":5,"1":9}}', '{"logOffset":3}', "-", "17", '{"a":{"0":6,"1":4},"b":{"0":2}}']
    plan = parse_plan(HEAD + "\n".join(lines) + "\n", "offsets/1")
    places = {("a", 0): 5, ("a", 1): 4, ("b", 0): 2}
    assert plan.watermark_ms == 7
    assert plan.source_cut == Cut.of({TopicPartition(*place): offset for place, offset in places.items()})


@pytest.mark.parametrize("lines", ["", '{"logOffset":3}', "{", '{"a":{"0":null}}'])
def test_an_offset_log_without_a_kafka_source_is_refused(lines: str) -> None:
    """Nothing, another source alone, half a line or no number: the file is named."""
    with pytest.raises(ProtocolError, match="offsets/1"):
        parse_plan(HEAD + lines, "offsets/1")


def test_a_file_that_a_power_failure_has_left_empty_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Its checksum is empty too, so Hadoop reads it without a complaint: it is damaged, not of another Spark."""
    checkpoint = Checkpoint(spark, str(tmp_path))
    checkpoint.keep_decoding(1, "as it was")
    [kept] = [path for path in tmp_path.rglob("1") if path.is_file()]
    for one in (kept, kept.with_name(f".{kept.name}.crc")):
        assert one.stat().st_size
        one.write_bytes(b"")
    with pytest.raises(MachineError, match=rf"{kept} is empty, .* Put back a copy"):
        checkpoint.newest_decoding()


def test_a_checkpoint_keeps_the_newest_decodings_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A job that amends stores two with each cleaning, for years; a fenced attempt's are not the newest."""
    checkpoint = Checkpoint(spark, str(tmp_path))
    for number in range(30):
        checkpoint.keep_decoding(2, f"decoding {number}")
    checkpoint.keep_decoding(1, "of a fenced attempt")
    assert checkpoint.newest_decoding() == "decoding 29"
    files = [one.name for one in tmp_path.rglob("*") if one.is_file()]
    assert len(files) <= 2 * 21, "with a checksum each"
    assert "2-29" in files
    assert "2" not in files


def test_a_seed_without_its_files_is_made_again(spark: SparkSession, tmp_path: Path) -> None:
    """A fenced attempt records its seed although the next one has deleted it, and that one is killed."""
    older, checkpoint = Checkpoint(spark, str(tmp_path)), Checkpoint(spark, str(tmp_path))
    spark.range(1).write.parquet(older.seed_folder(1))
    checkpoint.drop_seeds()
    older.keep_seed(1, 70)
    assert checkpoint.seed() is None
    spark.range(1).write.parquet(checkpoint.seed_folder(3))
    checkpoint.keep_seed(3, 80)
    assert checkpoint.seed() == Seed(checkpoint.seed_folder(3), 80)


def test_a_query_begins_where_the_cut_says_and_at_the_first_offset_elsewhere() -> None:
    """Partitions that came after the parent's cut are new, whichever topic's they are."""
    cut = Cut.of({TopicPartition("e", 0): 0, TopicPartition("e.from-us", 1): 7})
    wanted = {"e": {"0": 0, "1": -2}, "e.from-us": {"0": -2, "1": 7}}
    assert json.loads(starting_offsets(BOTH, StartState(cut, 5))) == wanted
    assert starting_offsets(only("e", "us", 3), FIRST) == "earliest"


def test_what_was_seen_of_copies_is_told_by_place() -> None:
    """The offset behind the newest; nothing of a partition that had no events."""
    metrics = {
        "events": 5,
        "rejected": 1,
        "oldest": 3,
        "unknown": 0,
        "copied_0": None,
        "copied_1": 41,
        "newest_3": 9,
    }
    seen = seen_of(metrics, BOTH)
    assert (seen.events, seen.rejected, seen.oldest_ms, seen.newest_ms) == (5, 1, 3, {3: 9})
    assert seen.copied == {TopicPartition("e.from-us", 1): 42}
    assert seen_of({"events": 5, "rejected": 1, "oldest": 3}, only("e", "us", 1)).copied == {}


def test_events_of_a_copys_new_partition_end_the_query() -> None:
    """Where they stand in their own region would be told by nobody."""
    with pytest.raises(UnavailableError, match=r"e\.from-us has more partitions"):
        seen_of({"events": 1, "rejected": 0, "oldest": 3, "unknown": 1}, BOTH)


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Job:
    """With a source of two partitions."""
    (tmp_path / "job.yaml").write_text(counting.job_text(unique("offsets"), per_epoch=100_000))
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    made = load_job(tmp_path / "job.yaml")
    ensure_topics(broker.cluster, [topics.events(made.topic, 2)])
    return made


@pytest.mark.slow
def test_the_next_batch_reads_as_many_as_it_is_told(
    broker: Any, spark: SparkSession, tmp_path: Path, job: Job
) -> None:
    """Of a map that is no public interface of Spark: another version may have none."""
    EventWriter(broker.cluster, job, None).write_all(counting.events(1_000))
    read: list[int] = []

    def batch(frame: Any, _epoch: int) -> None:
        read.append(frame.count())
        if len(read) == 2:
            set_limit(spark, query, 400)

    raw = read_events(spark, job, broker.cluster, limit=100)
    started = raw.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(batch)
    query = started.trigger(processingTime="100 milliseconds").start()
    try:
        wait_until(lambda: sum(read) == 1_000 or query.exception(), "all events", 60)
    finally:
        query.stop()
    assert read == [99, 99, 399, 399, 4], "shares of two partitions are rounded down"


@pytest.mark.slow
def test_the_source_holds_events_back_for_an_interval(
    broker: Any, spark: SparkSession, tmp_path: Path, job: Job
) -> None:
    """From the start on by options, later by the map, while the query runs: its trigger stays the same.

    A full batch does not wait. What the next batches read is counted by the events that come meanwhile.
    """
    writer = EventWriter(broker.cluster, job, None)
    read: list[tuple[float, int]] = []

    def batch(frame: Any, _epoch: int) -> None:
        read.append((time.monotonic(), frame.count()))
        if len(read) == 3:
            set_limit(spark, query, 1_000, 4_000)

    raw = read_events(spark, job, broker.cluster, limit=1_000, interval_ms=2_000)
    started = raw.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(batch)
    query = started.trigger(processingTime="100 milliseconds").start()
    try:
        until_s = time.monotonic() + 60
        while len(read) < 5 and not query.exception() and time.monotonic() < until_s:
            writer.write_all(counting.events(20))
            time.sleep(0.1)
        writer.write_all(counting.events(2_000))
        wait_until(lambda: len(read) >= 7 or query.exception(), "full batches", 60)
    finally:
        query.stop()
    assert [query.exception(), len(read) >= 7] == [None, True]
    gaps_s = [later[0] - before[0] for before, later in pairwise(read)]
    assert 1.5 < gaps_s[1] < 3.5, "the interval of the start"
    assert 3.5 < gaps_s[3] < 6, "the one that was set"
    assert min(gaps_s[4:6]) < 3, "a full batch begins at once"


def test_a_spark_without_that_map_keeps_the_limit_and_says_so(spark: SparkSession) -> None:
    """Once, and the epochs go on."""
    limit = SourceLimit(spark, Admission(10**6, 10**9), structlog.get_logger(), lambda: None)
    begun = limit.begin()
    with capture_logs() as logs:
        for _ in range(2):
            limit.epoch_took(object(), InputStats(events=begun, size=begun), 1.0)  # type: ignore[arg-type]
    assert [one["log_level"] for one in logs] == ["warning"]
    assert limit.begin() > begun, "the next query's is right"


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "numbers"), [(0, [2, 2]), (1, [1, 1]), (9, [2, 2])])
def test_at_most_so_many_tasks_read_the_source(
    broker: Any, spark: SparkSession, tmp_path: Path, job: Job, tasks: int, numbers: list[int]
) -> None:
    """Of two partitions; every event is read once."""
    EventWriter(broker.cluster, job, None).write_all(counting.events(1_000))
    found: list[tuple[int, int]] = []

    def batch(frame: Any, _epoch: int) -> None:
        found.append((frame.rdd.getNumPartitions(), frame.select("partition", "offset").distinct().count()))

    raw = read_events(spark, job, broker.cluster, limit=600, tasks=tasks)
    started = raw.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(batch)
    query = started.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert [number for number, _ in found] == numbers
    assert sum(events for _, events in found) == 1_000
