"""`max_jump` in a driver: one event far ahead of all others closes no window, and time goes on when it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.rejected_events import dead_letters
from cutwater.core.driver.time_jumps import held_from
from cutwater.core.events import rejection
from cutwater.core.generations.source_topics import Sources
from cutwater.core.protocol.cuts import Cut, Range
from cutwater_spark.epoch.rejected_events import RejectedEventLists
from cutwater_spark.query.decoding import decode
from support.events import counting
from support.harness import Flow, flow

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]
DAY_MS = 86_400_000
MINUTES_MS = 600_000


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    text = counting.job_text(unique("jumps"), per_epoch=1_000) + "max_jump: 7d\n"
    with flow(broker.cluster, text, tmp_path, counting.SCHEMA) as made:
        yield made


@pytest.mark.slow
def test_held_events_have_a_reason_of_their_own_and_the_look_sees_them_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the bound on, and none before it; each stretch of a look has its first and last event time."""
    (tmp_path / "job.yaml").write_text(counting.job_text("jumps") + "max_jump: 7d\n")
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    job, at = load_job(tmp_path / "job.yaml"), [0, 1, 6 * DAY_MS, 60 * DAY_MS, 60 * DAY_MS + 5]
    encode, known = Codec(job.event_schema).encode, known_schemas(job, None)
    values = [encode({"key": "k", "at": counting.START_MS + one, "value": 1}) for one in at]
    written = datetime.fromtimestamp(counting.START_MS / 1000 + 70 * 86_400, UTC)
    raw = spark.createDataFrame(
        [(None, value, job.topic, 0, place, written) for place, value in enumerate(values)],
        "key binary, value binary, topic string, partition int, offset long, timestamp timestamp",
    )
    sources = Sources(job.topic, "local", {job.topic: 1})

    def reasons(held_ms: int | None) -> list[str | None]:
        held = decode(raw, replace(job, held_ms=held_ms), known, sources)
        return [row[0] for row in held.select("offset", "__reason").orderBy("offset").select("__reason").collect()]

    bound = counting.START_MS + 60 * DAY_MS
    assert reasons(None) == [None] * 5
    assert reasons(bound) == [*[None] * 3, *[rejection.JUMPS_AHEAD] * 2]
    assert reasons(bound + 1) == [*[None] * 4, rejection.JUMPS_AHEAD]
    lists = RejectedEventLists(spark, job, Cluster(""), known, sources)
    monkeypatch.setattr(lists, "_events", lambda _range: decode(raw, job, known, sources))
    segments = lists.event_times(Range(Cut(), Cut(), 0), 7 * DAY_MS)
    assert sum(one.events for one in segments) == 5
    assert held_from(segments, counting.START_MS, 7 * DAY_MS) == bound


@pytest.mark.slow
def test_one_event_two_months_ahead_makes_none_late(job: Flow) -> None:
    """It is a dead letter of its own reason, in a running job as in its first epoch; 5,000 ordinary ones count.

    The bound outlives the driver, and is lifted when events come that far by themselves.
    """
    first, far, later = counting.events(500), 60 * DAY_MS, counting.events(5_000, seed=8)
    job.produce([ahead(first[0], far), *first])
    job.signal()
    driver = job.driver()
    job.wait_committed(600)
    job.produce([ahead(first[1], far + DAY_MS), *[ahead(one, MINUTES_MS) for one in later]])
    job.wait_committed(600)
    driver.terminate()
    assert driver.wait(60) == 0
    moved = [ahead(one, days * DAY_MS) for days in range(6, 61, 6) for one in counting.events(20, seed=days)]
    job.produce(moved)
    job.driver()
    milestone = job.wait_committed(600)
    stream = [one for one, _ in job.milestones()]
    assert sum(one.late for one in stream) == 0
    assert sum(one.rejected for one in stream) == 2
    letters = dead_letters(job.cluster, job.job.name).entries
    assert Counter(one.reason for one in letters) == {rejection.JUMPS_AHEAD: 2}
    used = [*first, *(ahead(one, MINUTES_MS) for one in later), *moved]
    assert job.state(milestone) == counting.expected(used)
    log = job.log("cutwater_spark.driver").read_text()
    assert "events are held: they jump ahead of all others" in log
    assert "no events are held any more" in log


def ahead(event: dict[str, Any], by_ms: int) -> dict[str, Any]:
    return {**event, "at": event["at"] + by_ms}
