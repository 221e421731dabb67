"""The mirror between two real brokers: what an arrival promises is there, read independently (I5)."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.fetch.fetcher import Fetcher
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import FencedError
from cutwater.core.protocol import mirror_records, topics
from cutwater.mirror.slot import Slot
from support.regions.mirroring import (
    Events,
    Running,
    arrivals,
    environment_of,
    make,
    mirroring,
    positions,
    process,
    read_all,
    require_held,
    sold,
    wait_arrived,
)
from support.views.changelogs import HOUR_MS, Sold, Writing, encoded, make_job, now_ms, until


@pytest.mark.slow
def test_every_arrival_holds_what_its_milestone_says(
    broker: Any, writing: Writing, unique: Callable[[str], str]
) -> None:
    """Events with headers, tombstones and aborted transactions; rows, empty epochs; milestone after milestone."""
    events = Events(writing)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        for number in range(6):
            events.produce(50 + number)
            events.transaction(unique("tx"), 7, commit=number % 2 == 0)
            cut = events.cut()
            events.produce(5)
            writing.epoch(sold(number // 2, 100 * number) if number != 3 else [], source_cut=cut)
            wait_arrived(mirror, broker.cluster, writing.job, number + 1)
    found = arrivals(broker.cluster, writing.job)
    assert [one.sequence for one in found] == [1, 2, 3, 4, 5, 6]
    for one in found:
        require_held(writing, broker.cluster, one)
    stream = [one.value for one in read_all(writing.cluster, topics.milestones(writing.job.name), 0)]
    copied = read_all(broker.cluster, mirror_records.milestones_from(writing.job.name, "local"), 0)
    assert [one.value for one in copied] == stream, "milestones are copied byte for byte"


LZ4 = 3
"""In a batch's attributes."""


def codecs(cluster: Cluster, topic: str, ends: Mapping[int, int]) -> list[int]:
    """How each batch below the ends is compressed, as it stands in the log."""
    found: list[int] = []
    following = dict.fromkeys(ends, 0)
    with closing(cluster.reader(Fetcher, topic)) as fetcher:
        fetcher.assign(following)

        def read() -> bool:
            for partition, one in fetcher.take(1.0).items():
                found.extend(batch.parsed.compression_type for batch in one.batches)
                following[partition] = one.following
            return all(following[partition] >= end for partition, end in ends.items())

        until(read, f"{topic} up to {ends}")
    return found


@pytest.mark.slow
def test_copies_are_compressed(broker: Any, writing: Writing, events: Events) -> None:
    """Whatever the origin's producers do: rows and events go compressed to the brokers here, and lie so.

    A client sends a batch as it is where that is shorter, so each has something to gain.
    """
    own, job = broker.cluster, writing.job
    events.produce(600)
    writing.epoch(sold(1, 1, shops=600), source_cut=events.cut())
    with mirroring(own, writing.cluster, job) as mirror:
        found = wait_arrived(mirror, own, job, 1)
    for topic, cut in ((events.topic, found.source_cut), (writing.topic, found.changelog_cut)):
        there = codecs(writing.cluster, topic, {place.partition: 1 for place, _ in cut})
        assert set(there) == {0}
        copy = mirror_records.target(job.name, topic, "local")
        here = codecs(own, copy, {place.partition: offset for place, offset in cut})
        assert set(here) == {LZ4}


EAGER = {
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "50",
    "delete.retention.ms": "0",
}
"""The cleaner takes what it may at once, tombstones too."""


@pytest.mark.slow
def test_milestones_that_compaction_overtook_have_no_arrival(broker: Any, origin: Cluster, tmp_path: Path) -> None:
    """Begun late, the mirror announces no milestone whose values are gone, but the one at the end of the log."""
    job, _ = make_job(tmp_path, partitions=1)
    writing = Writing(origin, job, **EAGER)
    for epoch in range(4):
        writing.epoch([Sold(f"s{number}", 1, epoch) for number in range(50)])
        time.sleep(0.1)
    rows = [Sold(f"s{number}", 1, 9) for number in range(49)]
    written = writing.rows(rows, epoch=4)
    writing.tombstone(Sold("s49", 1, 1))
    time.sleep(0.1)
    writing.rows([Sold("roll", 1, 1)], epoch=4)  # the active segment is never compacted: begin another
    until(lambda: read_all(origin, writing.topic, 0)[0].offset >= 150, "compaction")
    Events(writing)
    with mirroring(broker.cluster, origin, job) as mirror:
        mirror.until(lambda: (job.name + ".milestones", 0) in positions(broker.cluster, job), "the milestones")
        mirror.until(lambda: not mirror.mirror.arriving.ledger.pending, "all milestones to be decided")
        assert arrivals(broker.cluster, job) == []
        del writing.state["s49", HOUR_MS]
        writing.milestone([*rows, Sold("roll", 1, 1)], [*written, encoded(job, Sold("roll", 1, 1))])
        last = wait_arrived(mirror, broker.cluster, job, 5)
    assert [one.sequence for one in arrivals(broker.cluster, job)] == [5]
    require_held(writing, broker.cluster, last)
    writing.close()


def test_a_mirror_slower_than_the_lag_announces_only_what_it_holds(
    broker: Any, writing: Writing, tmp_path: Path
) -> None:
    """By a clock two days ahead every record is old enough to be compacted: only the end of the log is sure."""
    Events(writing)
    for number in range(5):
        writing.epoch(sold(1, number))
    with mirroring(broker.cluster, writing.cluster, writing.job, lambda: now_ms() + 48 * HOUR_MS) as mirror:
        last = wait_arrived(mirror, broker.cluster, writing.job, 5)
    assert [one.sequence for one in arrivals(broker.cluster, writing.job)] == [5]
    require_held(writing, broker.cluster, last)


POINTS = ["transaction-open@1", "copy-read@3", "transaction-open@2", "transaction-open@6", "copy-written@3"]
POINTS += ["arrival-due@2", "arrival-written@2"]


@pytest.mark.slow
def test_killed_between_any_two_steps_it_loses_and_repeats_nothing(
    broker: Any, origin: Cluster, tmp_path: Path
) -> None:
    """I4: kill -9 at each point, one after the other; copies and arrivals are as if nothing had happened."""
    job, path = make_job(tmp_path)
    writing = Writing(origin, job)
    events = Events(writing)
    log = tmp_path / "log"
    for number, point in enumerate(POINTS, 1):
        mark = tmp_path / point
        env = {"CUTWATER_CRASH_POINT": point, "CUTWATER_CRASH_MARK": str(mark)}
        dying = process(broker.cluster, origin, path, log, **env)
        try:
            for part in range(40):
                events.produce(30)
                writing.epoch(sold(number, part, shops=5), source_cut=events.cut())
                if dying.poll() is not None:
                    break
                time.sleep(0.1)
            until(lambda dying=dying: dying.poll() is not None, lambda point=point: f"{point}; {log.read_text()}")
        finally:
            dying.kill()
        assert mark.exists(), f"{point} was not reached: {log.read_text()}"
    assert writing.last is not None
    with mirroring(broker.cluster, origin, job) as mirror:
        wait_arrived(mirror, broker.cluster, job, writing.last.sequence)
    found = [one.sequence for one in arrivals(broker.cluster, job)]
    assert found == list(range(1, writing.last.sequence + 1)), "each milestone arrives once, in order"
    for one in arrivals(broker.cluster, job)[:: max(1, len(found) // 8)] + arrivals(broker.cluster, job)[-1:]:
        require_held(writing, broker.cluster, one)
    writing.close()


@contextmanager
def beaten(own: Cluster, writing: Writing) -> Iterator[Running]:
    """A mirror that must end with FencedError."""
    running = Running(make(own, writing.cluster, writing.job))
    try:
        yield running
    finally:
        with pytest.raises(FencedError):
            running.end()


@pytest.mark.slow
def test_a_second_mirror_fences_the_first(broker: Any, writing: Writing) -> None:
    """Two at once: the older leaves with FencedError, and nothing is copied twice."""
    events = Events(writing)
    events.produce(60)
    writing.epoch(sold(1, 1), source_cut=events.cut())
    with beaten(broker.cluster, writing) as first:
        wait_arrived(first, broker.cluster, writing.job, 1)
        with mirroring(broker.cluster, writing.cluster, writing.job) as second:
            second.until(lambda: second.mirror.copier.ready, "the second to have started")
            events.produce(60)
            writing.epoch(sold(1, 2), source_cut=events.cut())
            wait_arrived(second, broker.cluster, writing.job, 2)
            until(lambda: first.error is not None, "the first to leave")
    assert [one.sequence for one in arrivals(broker.cluster, writing.job)] == [1, 2]
    for one in arrivals(broker.cluster, writing.job):
        require_held(writing, broker.cluster, one)


@pytest.mark.slow
def test_one_that_stood_still_in_a_transaction_is_fenced_not_diverged(
    broker: Any, writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held up before its proof, while another took over and wrote: its records are gone, and it leaves."""
    events = Events(writing)
    held, go_on, real = threading.Event(), threading.Event(), Slot._proved

    def stalling(self: Slot, taken: Any, positions: Any) -> Any:
        if any(one.records for one in taken) and not held.is_set():
            held.set()
            go_on.wait(60)
        return real(self, taken, positions)

    monkeypatch.setattr(Slot, "_proved", stalling)
    with beaten(broker.cluster, writing) as first:
        events.produce(60)
        until(held.is_set, "the first to stand still")
        with mirroring(broker.cluster, writing.cluster, writing.job) as second:
            writing.epoch(sold(1, 2), source_cut=events.cut())
            wait_arrived(second, broker.cluster, writing.job, 1)
            go_on.set()
            until(lambda: first.error is not None, "the first to leave")
    (only,) = arrivals(broker.cluster, writing.job)
    require_held(writing, broker.cluster, only)


@pytest.mark.slow
def test_two_processes_share_the_slots(broker: Any, origin: Cluster, tmp_path: Path) -> None:
    """Each holds its own: all partitions are copied once, and arrivals wait for both."""
    job, path = make_job(tmp_path, partitions=6)
    writing = Writing(origin, job)
    events = Events(writing)
    one, two = [
        process(broker.cluster, origin, path, tmp_path / f"log{slots}", CUTWATER_MIRROR_SLOTS=slots)
        for slots in ("0,1", "2,3")
    ]
    try:
        for number in range(3):
            events.produce(90)
            writing.epoch(sold(1, number), source_cut=events.cut())
            time.sleep(0.3)
        until(lambda: len(arrivals(broker.cluster, job)) == 3, "three arrivals")
        assert (one.poll(), two.poll()) == (None, None)
        found = arrivals(broker.cluster, job)
    finally:
        one.kill()
        two.kill()
    for arrival in found:
        require_held(writing, broker.cluster, arrival)
    writing.close()


def test_a_cluster_is_not_mirrored_to_itself(broker: Any, origin: Cluster, tmp_path: Path) -> None:
    """A changelog keeps its name, so it would be copied for ever: refused, naming both settings."""
    _, path = make_job(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "cutwater.mirror", str(path)],
        env=environment_of(origin, origin),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "same cluster" in done.stderr
