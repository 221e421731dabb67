"""What operators bound: how fast a mirror copies, and whether it does; of every process, and of those to come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.job.job import Job
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.util.rate_limit import PIECE_S
from cutwater.mirror.copier import Copier
from cutwater.operations.regions.mirror_control import control_mirror
from support.regions.mirroring import (
    ORIGIN,
    Events,
    Running,
    arrivals,
    epoch,
    mirroring,
    positions,
    process,
    require_held,
    wait_arrived,
)
from support.views.changelogs import Writing, make_job, now_ms, until

BYTES_PER_S, BATCH_BYTES = 60_000, 25_000
HALVES = ((0, 1), (2, 3))
"""The slots of the one process, and of the other."""
ROUNDS = 40
"""Of some 20 ms each: a mirror that is not paused has long begun to copy what is there."""


@pytest.mark.slow
def test_a_throttle_holds_the_rate(broker: Any, origin: Cluster, tmp_path: Path) -> None:
    """Bytes a second, over all topics. A piece goes at once and is paid for by waiting: what is written behind it
    comes when all before it is paid for, and nothing is lost. Few large events: to make them takes no time."""
    own, (job, path) = broker.cluster, make_job(tmp_path)
    writing = Writing(origin, job)
    events = Events(writing)
    first = epoch(writing, events, 1)
    rate = {"CUTWATER_MIRROR_BYTES_PER_S": str(BYTES_PER_S)}
    mirror = process(own, origin, path, tmp_path / "log", **rate)
    try:
        await_arrival(own, job, first)
        began, before = time.monotonic(), copied_bytes(own, job)
        produce_large(events, 32)
        await_arrival(own, job, epoch(writing, events, 2))
        size = copied_bytes(own, job) - before
        await_arrival(own, job, epoch(writing, events, 3))
        took_s = time.monotonic() - began
    finally:
        mirror.kill()
    assert size > 300_000, "too little to be held up"
    assert took_s >= 0.9 * size / BYTES_PER_S
    require_held(writing, own, arrivals(own, job)[-1])
    writing.close()


@pytest.mark.slow
def test_what_goes_at_once_keeps_to_the_rate(
    broker: Any, writing: Writing, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers here that take no more would else have to acknowledge megabytes before the client gives up, and the
    next start would try the same again. Every partition has its turn, and all comes in order."""
    own, sizes, real = broker.cluster, list[int](), Copier.round

    def measured(self: Copier, *args: Any) -> int:
        sizes.append(real(self, *args))
        return sizes[-1]

    monkeypatch.setattr(Copier, "round", measured)
    produce_large(events, 90)
    sequence = epoch(writing, events, 1)
    fast = {"clock_s": lambda: 10 * time.monotonic()}
    with mirroring(own, writing.cluster, writing.job, bytes_per_s=BYTES_PER_S // 3, **fast) as mirror:
        arrived = wait_arrived(mirror, own, writing.job, sequence)
    assert sum(sizes) > 900_000, "too little to be split"
    assert max(sizes) <= PIECE_S * BYTES_PER_S // 3 + BATCH_BYTES
    require_held(writing, own, arrived)


def produce_large(events: Events, count: int) -> None:
    """Of 10,000 bytes each."""
    producer = Producer({**events.cluster.librdkafka(), "batch.size": BATCH_BYTES})
    for number in range(count):
        producer.produce(events.topic, value=bytes(10_000), partition=number % events.partitions)
    assert producer.flush(20) == 0


def await_arrival(own: Cluster, job: Job, sequence: int) -> None:
    until(lambda: any(one.sequence == sequence for one in arrivals(own, job)), f"the arrival of {sequence}")


def copied_bytes(own: Cluster, job: Job) -> int:
    return sum(one.size for one in positions(own, job).values())


def settled(own: Cluster, writing: Writing) -> Any:
    """The ends of all copies, once they stand: a transaction's markers come a moment behind its records."""
    seen: list[Any] = [None]

    def stand() -> bool:
        seen.append(ends(own, writing))
        return bool(seen[-1] == seen[-2])

    until(stand, "the ends of the copies to stand")
    return seen[-1]


@pytest.mark.slow
def test_a_pause_holds_for_all_processes_and_over_restarts(broker: Any, origin: Cluster, tmp_path: Path) -> None:
    """Each holds half of the slots. What was written meanwhile comes when the mirror goes on, from both."""
    own, job = broker.cluster, make_job(tmp_path, partitions=6)[0]
    writing = Writing(origin, job)
    events = Events(writing)
    with two_processes(own, origin, job) as both:
        wait_arrived(both[0], own, job, epoch(writing, events, 1))
        require_both(both)
        control_mirror(own, job.name, ORIGIN, True, now_ms())
        for one in both:
            one.until(lambda: one.mirror.arriving.paused, "the pause")  # noqa: B023 - asked at once
        let_rounds_pass(both)  # those that were under way
        stood = settled(own, writing)
        epoch(writing, events, 2)
        let_rounds_pass(both)
        assert ends(own, writing) == stood
    with two_processes(own, origin, job) as both:
        let_rounds_pass(both)
        assert ends(own, writing) == stood
        control_mirror(own, job.name, ORIGIN, False, now_ms())
        last = wait_arrived(both[0], own, job, 2)
        require_both(both)
    require_held(writing, own, last)
    writing.close()


@contextmanager
def two_processes(own: Cluster, origin: Cluster, job: Job) -> Iterator[list[Running]]:
    """Of one mirror, and both at work: each has something to copy from."""
    with ExitStack() as stack:
        both = [stack.enter_context(mirroring(own, origin, job, slots=slots)) for slots in HALVES]
        for one in both:
            one.until(lambda: one.mirror.copier.busy, "something to copy from")  # noqa: B023 - asked at once
        yield both


def let_rounds_pass(both: list[Running]) -> None:
    """Some of each process, behind the first positions that it has read."""
    for one in both:
        one.until(lambda: list(one.mirror.arriving.ledger.copies()), "positions")  # noqa: B023 - asked at once
        wanted = rounds(one) + ROUNDS
        one.until(lambda: rounds(one) >= wanted, "rounds")  # noqa: B023 - asked at once


def require_both(both: list[Running]) -> None:
    """Each has copied a part. It counts behind its transaction, so somebody else may have told of that before."""
    for one in both:
        one.until(lambda: records(one), "its part")  # noqa: B023 - asked at once


def rounds(one: Running) -> float:
    return one.metrics.registry.get_sample_value("cutwater_mirror_rounds_total") or 0


def records(one: Running) -> float:
    """How many this process has copied, of all topics."""
    found = [sample for metric in one.metrics.registry.collect() for sample in metric.samples]
    return sum(sample.value for sample in found if sample.name == "cutwater_mirror_records_total")


def ends(own: Cluster, writing: Writing) -> list[Any]:
    """Of all copies here: where nothing is copied, they stand."""
    there = (writing.job.topic, writing.topic, topics.milestones(writing.job.name))
    return [source_end(own, mirror_records.target(writing.job.name, topic, ORIGIN)) for topic in there]
