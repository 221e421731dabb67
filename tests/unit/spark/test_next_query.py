"""What a driver's next query reads and closes, after one that was stopped for it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.driver.ports import Past
from cutwater.core.generations.start_state import FIRST
from cutwater.core.job.event_decoding import Decoding
from cutwater.core.protocol.cuts import EpochPlan
from cutwater.core.protocol.records import Barrier
from cutwater_spark import attempt as attempt_module
from cutwater_spark.attempt import Attempt
from cutwater_spark.epoch.cleanings import Cleanings
from support.output_samples import example_job
from support.protocol_samples import barrier, source_cut


class Disk:
    """A checkpoint in memory."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, int, str]] = []
        self.committed: set[int] = set()

    def keep_decoding(self, attempt: int, text: str) -> None:
        self.kept.append((attempt, len(self.kept), text))

    def newest_decoding(self) -> str | None:
        return max(self.kept)[2] if self.kept else None

    def is_committed(self, epoch: int) -> bool:
        return epoch in self.committed


class Writer:
    """The epoch writer of an attempt, as far as the choice of queries asks it."""

    def __init__(self, newest: Barrier, watermark_ms: int = 0) -> None:
        """`watermark_ms`: Spark's own, in the newest plan."""
        self.lock, self.stopping = threading.Lock(), False
        self.newest_own: Barrier | None = newest
        self.begun: int | None = None
        self.steps: Any = SimpleNamespace(
            newest=newest,
            newest_plan=EpochPlan(source_cut(newest.epoch), watermark_ms),
            unfinished=lambda: self.begun,
        )

    def accept_next_query(self) -> None:
        self.stopping = False


class Query:
    """A query that runs until it is stopped."""

    def awaitTermination(self, _timeout: float) -> bool:
        return False

    def stop(self) -> None:
        """Stop."""


def attempt_of(folder: Path, disk: Disk, newest: Barrier) -> tuple[Any, Decoding]:
    """The second attempt of a job that amends, without Spark and brokers, and its job file's decoding."""
    job = replace(example_job(folder), amend_for_ms=10, lateness_ms=5)
    one: Any = object.__new__(Attempt)
    one._job, one._number, one._log = job, 2, structlog.get_logger()
    one._decoding = wanted = Decoding.of(job, known_schemas(job, None))
    one._checkpoint = one.checkpoint = disk
    one.decodings, one.origin, one._past = None, FIRST, Past(1, {newest.epoch: newest})
    one.seen, one._stop = InputStats(), threading.Event()
    one._cleanings = Cleanings(10, 5, 1, 0.0, lambda _what, _seconds: None, lambda: 1_000.0)
    one._telemetry = SimpleNamespace(look=lambda _query: None)
    return one, wanted


def test_the_first_floor_is_at_the_epochs_that_were_finished_first(tmp_path: Path) -> None:
    """The job file got its amend_for while epoch 5 was begun: Spark's watermark closes windows up to its end.

    With a floor below that, an event would open a window anew whose row is no longer in the state.
    """
    disk, before = Disk(), barrier(4, floor_ms=70)
    one, wanted = attempt_of(tmp_path, disk, before)
    disk.keep_decoding(1, wanted.text)
    writer = Writer(before)
    writer.begun = 5
    assert one._choose(writer) == (wanted, 5)
    writer.steps.newest, writer.begun = barrier(6, attempt=2, floor_ms=90), None
    assert one._choose(writer) == (wanted.closing(90), None)


@pytest.mark.parametrize("committed", [True, False])
def test_the_floor_is_raised_behind_a_committed_epoch_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """Otherwise the epoch runs again with another floor, and lacks rows that its barrier has counted."""
    monkeypatch.setattr(attempt_module, "STOP_AFTER_COMMIT_S", 0.05)
    disk, newest = Disk(), barrier(5, attempt=2, watermark_ms=1_000, floor_ms=70)
    one, wanted = attempt_of(tmp_path, disk, newest)
    disk.keep_decoding(2, wanted.closing(70).text)
    writer, announcer = Writer(newest), SimpleNamespace(failure=None)
    decoding, _ = one._choose(writer)
    assert decoding.floor_ms == 70
    if committed:
        disk.committed.add(5)
    assert not one._watch(Query(), writer, announcer, None, decoding)
    writer.begun = None if committed else 5
    expected = wanted.closing(990, cleans=True) if committed else wanted.closing(70)
    assert one._choose(writer) == (expected, None)


@pytest.mark.parametrize(("spark_ms", "raised"), [(0, True), (990, True), (991, False)])
def test_the_floor_is_not_raised_below_sparks_own_watermark(tmp_path: Path, spark_ms: int, raised: bool) -> None:
    """Spark closed the windows before the job amended, and goes on from its next epoch's watermark.

    A cleaning evicts up to that, so events between floor and watermark would begin their rows anew.
    """
    disk, newest = Disk(), barrier(5, attempt=2, watermark_ms=1_000, floor_ms=70)
    one, wanted = attempt_of(tmp_path, disk, newest)
    disk.keep_decoding(2, wanted.closing(70).text)
    writer = Writer(newest, spark_ms)
    decoding, _ = one._choose(writer)
    assert (one._next_closing(writer, decoding) is not None) == raised
