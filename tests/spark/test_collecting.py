"""The driver clears windows below the horizon from the changelog: exact under kill -9, never of an idle job."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.client import committed
from cutwater.core.job.job import PLAIN_KEY_SCHEMA
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Heartbeat
from support.events import counting
from support.harness import GENERATION, Flow, flow, kill_session, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]
HOUR_MS = 3_600_000


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    text = counting.job_text(unique("clear"), per_epoch=300, retention="10m").replace(
        "lateness: 1h", "lateness: 5m"
    )
    with flow(broker.cluster, text, tmp_path, counting.SCHEMA) as made:
        yield made


def events_of_hours(hours: int) -> list[dict[str, Any]]:
    """Ten minutes' events each hour, in time order: older hours fall below the horizon one by one."""
    made = []
    for hour in range(hours):
        part = [one | {"at": one["at"] + hour * HOUR_MS} for one in counting.events(600, seed=hour)]
        made += sorted(part, key=lambda one: one["at"])
    return made


def cleared(job: Flow) -> list[tuple[str, int]]:
    """(key, end of window) of each tombstone on the changelog."""
    keys, consumer, found = Codec(PLAIN_KEY_SCHEMA), make_consumer(job.cluster), []
    topic = topics.changelog(job.job.name, GENERATION)
    for partition in range(2):
        low, high = bounds(consumer, topic, partition)
        for message in read_range(consumer, topic, partition, low, high):
            if message.value() is None:
                at = keys.decode(message.key())
                found.append((at["key"], at["window_end"]))
    consumer.close()
    return found


def told(job: Flow) -> int:
    """The tombstones that milestones count."""
    return sum(one.tombstones for one, _ in job.milestones())


def test_windows_below_the_horizon_are_cleared_and_the_rest_is_exact_after_kills(job: Flow) -> None:
    """Killed twice while it clears: every window above the horizon is right, and none of them got a tombstone."""
    made = events_of_hours(6)
    job.produce(made)
    job.signal()
    for round_ in (1, 2):
        driver, before = job.driver(CUTWATER_COLLECT_SHARE="0.3"), told(job)
        wait_until(lambda before=before: told(job) > before, f"tombstones of attempt {round_}")
        os.kill(driver.pid, 9)
        kill_session(driver.pid)
        assert len(job.milestones()) < 20, "the kill must come in the middle of the backlog"
    job.driver(CUTWATER_COLLECT_SHARE="0.3", CUTWATER_HEARTBEAT_MS="200")
    milestone = job.wait_committed()
    assert milestone.attempt == 3

    tombs, want = cleared(job), counting.expected(made)
    windows = {(key, start + 60_000) for key, start in want}
    assert len(tombs) >= told(job) > 0
    assert set(tombs) <= {(key, end) for key, end in windows if end <= milestone.horizon_ms}
    live = {at: row for at, row in want.items() if at[1] + 60_000 > milestone.horizon_ms}
    state = job.state(milestone)
    assert live
    assert {at: row for at, row in state.items() if at[1] + 60_000 > milestone.horizon_ms} == live
    assert len(state) < len(want), "what was cleared is not in the folded changelog"

    read = {}
    for whole in committed(job.job_file, source="changelog", cluster=job.cluster, idle_s=3.0):
        read.update({(one.key, one.window_start_ms): dict(one.values) for one in whole.changes})
    assert {at: row for at, row in read.items() if at in live} == live, "readers pass over tombstones"

    tail, beats = Tail(job.cluster, topics.barriers(job.job.name)), Counter[int]()

    def idle() -> bool:
        beats.update(one.epoch for one in tail.poll() if isinstance(one, Heartbeat) and one.attempt == 3)
        return max(beats.values(), default=0) >= 3

    wait_until(idle, "three heartbeats of an idle job's last epoch")
    tail.close()
    ends = Offsets(job.cluster).topic_ends(topics.changelog(job.job.name, GENERATION), 2)
    newest = job.milestones()[-1][0]
    assert newest.epoch == max(beats)
    assert {place.partition: end for place, end in newest.changelog_cut} == ends, "an idle job clears nothing"
