"""From 4 to 16 to 6 partitions while events arrive: within windows, at a bounded rate, with help."""

from __future__ import annotations

import json
import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client import bounds as offsets
from cutwater.adapters.kafka.client import make_consumer, read_range
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import candidates, parent_of
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import FencedError
from cutwater.core.generations.candidates import Candidate
from cutwater.core.pacing.candidate_pace import EPOCH_S
from cutwater.core.pacing.catch_up import approach, approach_text, rate_warning
from cutwater.core.pacing.maintenance_windows import MaintenanceWindows
from cutwater.core.pacing.schedules import WorkBounds
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Start
from cutwater.local.machine.ports import free_ports
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.requests import GenerationRequest, RequestedBounds
from support.harness import Flow, flow, scraped, wait_until
from support.lineage import signals_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]

MINUTE_MS = 60_000
START_MS = 1_700_000_000_000 // (60 * MINUTE_MS) * 60 * MINUTE_MS
PIECE, EVERY_S = 100, 0.4
ARRIVE_PER_S = PIECE / EVERY_S
"""At most: writing a piece takes time, too."""
BELOW, RATE = 50, 1_500
"""WorkBounds on the candidate's rate: far below what arrives, and far above it."""
EVENT = {
    "type": "record",
    "name": "Sale",
    "namespace": "test",
    "fields": [
        {"name": "shop", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "pieces", "type": "int"},
    ],
}
JOB = """job: NAME
source: {topic: NAME.events, schema: event.avsc, key: shop, event_time: at}
window: {kind: tumbling, size: 10m}
lateness: 30m
retention: 400d
partitions: 4
shuffle_partitions: 2
measures:
  sales: {measure: count}
  pieces: {measure: sum, field: pieces}
  most: {measure: max, field: pieces}
"""


class Load(threading.Thread):
    """Sends events until it is stopped, a second of event time apart, and none of them late."""

    def __init__(self, job: Flow) -> None:
        super().__init__(daemon=True)
        self._job, self._sent, self.stop = job, 0, threading.Event()
        self._rng = random.Random(40)

    def piece(self, count: int) -> None:
        first, self._sent = self._sent, self._sent + count
        self._job.produce(
            [
                {
                    "shop": f"s{self._rng.randrange(60)}",
                    "at": START_MS + number * 1_000 - self._rng.randrange(10 * MINUTE_MS),
                    "pieces": self._rng.randrange(1, 20),
                }
                for number in range(first, first + count)
            ]
        )

    def run(self) -> None:
        while not self.stop.wait(EVERY_S):
            self.piece(PIECE)

    def end(self) -> None:
        self.stop.set()
        self.join(60)


class Processes:
    """Driver and commit-signal of one generation."""

    def __init__(self, job: Flow, generation: Generation | None = None) -> None:
        self.port = free_ports(1)[0]
        env = {"CUTWATER_GENERATION": str(generation)} if generation else {}
        self._all: list[subprocess.Popen[bytes]] = [
            job.driver(CUTWATER_DRIVER_PORT=str(self.port), **env),
            job.start("cutwater.commit_signal", **env),
        ]

    def await_end(self) -> None:
        """Both leave by themselves, as fenced."""
        assert [one.wait(90) for one in self._all] == [FencedError.exit_code] * 2


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    with flow(broker.cluster, JOB.replace("NAME", unique("staged")), tmp_path, json.dumps(EVENT)) as made:
        yield made


@pytest.mark.timeout(900)  # on a machine that has nothing else to do about four minutes are expected
def test_four_to_sixteen_to_six_under_load_within_windows_and_a_rate(job: Flow) -> None:
    load, claims = Load(job), Claims(job.cluster, job.job, "local", now_ms)
    load.piece(4_000)
    first = Processes(job)
    job.wait_committed()
    load.start()
    sixteen, second = paused_then_promoted(job, claims)
    first.await_end()
    six = too_slow_then_promoted(job, claims)
    assert scraped(second.port)["cutwater_driver_yielded_seconds_total"] > 0, "it waited for the next generation"
    second.await_end()
    load.end()
    last = job.wait_committed()
    order = [one.generation for one, _ in job.milestones()]
    assert list(dict.fromkeys(order)) == [Generation(1, "local"), sixteen, six]
    assert len(last.changelog_cut) == 6
    assert last.late == 0
    assert job.state(last) == expected(job)


def paused_then_promoted(job: Flow, claims: Claims) -> tuple[Generation, Processes]:
    """16 partitions. Its promotion is requested at once; nothing of it works before the window."""
    asked = RequestedBounds(WorkBounds(opens_in_hours(), RATE), "alice")
    generation = claimed(claims, 16, asked)
    processes = Processes(job, generation)
    claims.promote(generation)
    log = job.log("cutwater_spark.driver")
    wait_until(lambda: "the candidate is paused" in log.read_text(), f"it is paused; log {log}", 120)
    newest = job.milestones()[-1][0].sequence
    wait_until(lambda: job.milestones()[-1][0].sequence > newest + 2, "the first generation goes on", 60)
    assert not signals_of(job, generation, Start), "no attempt has begun"
    claims.schedule(generation, RequestedBounds(asked.bounds._replace(windows=MaintenanceWindows()), "alice"))
    await_promoted(job, generation)
    assert_rate(job, generation)
    return generation, processes


def too_slow_then_promoted(job: Flow, claims: Claims) -> Generation:
    """6 partitions. With a bound below what arrives it says that it does not catch up, and what it needs."""
    asked = RequestedBounds(WorkBounds(max_events_per_s=BELOW, yield_ms=4_000), "alice")
    generation = claimed(claims, 6, asked)
    Processes(job, generation)
    claims.promote(generation)
    assert rate_warning(asked.bounds, ARRIVE_PER_S / 2, now_ms())
    said = wait_until(lambda: too_slow(job, generation), "it says that it does not catch up", 150)
    assert f"with at most {BELOW} events/s" in said
    assert "--max-rate" in said
    claims.schedule(generation, RequestedBounds(asked.bounds._replace(max_events_per_s=RATE), "alice"))
    await_promoted(job, generation)
    return generation


def too_slow(job: Flow, generation: Generation) -> str:
    one = candidate(job, generation)
    nearer = approach(one, parent_of(one.claim), job.milestones()[-1][0])
    said = approach_text(nearer, WorkBounds(max_events_per_s=BELOW), "run", now_ms()) if nearer else ""
    return said if "does not catch up" in said else ""


def candidate(job: Flow, generation: Generation) -> Candidate:
    return candidates(job.cluster, job.job.name).require(generation)


def claimed(claims: Claims, partitions: int, asked: RequestedBounds) -> Generation:
    words = GenerationRequest(None, partitions, False, "", bounds=asked)
    return claims.ask(words, UNREPLICATED, lambda _planned: None).claim.generation


def opens_in_hours() -> MaintenanceWindows:
    hour = (now_ms() // 3_600_000 + 3) % 24
    return MaintenanceWindows.parse([f"{hour:02}:00-{hour + 1:02}:00"])


def await_promoted(job: Flow, generation: Generation) -> None:
    wait_until(lambda: job.milestones()[-1][0].generation == generation, f"{generation} is promoted", 240)


def assert_rate(job: Flow, generation: Generation) -> None:
    """Each epoch of its time as a candidate is small, and the next one begins when it is paid for."""
    promoted = next(one for one, _ in job.milestones() if one.generation == generation)
    barriers = [one for one in signals_of(job, generation, Barrier) if one.epoch <= promoted.epoch]
    assert sum(one.events for one in barriers) > RATE * EPOCH_S, "the test must make more than one full epoch"
    for one, two in pairwise(barriers):
        assert one.events <= RATE * EPOCH_S + 16, "shares of partitions are rounded up"
        assert two.written_ms - one.epoch_started_ms >= 1_000 * one.events / RATE - 100


def expected(job: Flow) -> dict[tuple[str, int], dict[str, Any]]:
    """All events in DuckDB, by key and start of the window."""
    codec, consumer, rows = Codec(EVENT), make_consumer(job.cluster), list[dict[str, Any]]()
    for partition in range(4):
        low, high = offsets(consumer, job.source, partition)
        for message in read_range(consumer, job.source, partition, low, high):
            read = codec.decode(message.value())
            rows.append({**read, "at_ms": protocol_records.millis(read["at"])})
    consumer.close()
    frame = pd.DataFrame(rows)
    found = duckdb.sql(
        f"select shop, (at_ms // {10 * MINUTE_MS} * {10 * MINUTE_MS})::BIGINT, count(*), sum(pieces)::BIGINT, "
        "max(pieces) from frame group by all"
    ).fetchall()
    assert len(frame) > 8_000
    return {(shop, start): {"sales": n, "pieces": total, "most": most} for shop, start, n, total, most in found}
