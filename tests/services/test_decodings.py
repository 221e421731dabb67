"""Which decoding a query starts with: that of what was begun, and the job file's from then on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from cutwater.adapters.eventschemas import known_schemas
from cutwater.adapters.jobfile import load_job
from cutwater.core.decoding import Decoding
from cutwater_spark.decodings import Decodings

JOB = load_job(Path(__file__).parents[2] / "deploy" / "jobs" / "flights.yaml")
OLD = Decoding.of(JOB, known_schemas(JOB, None))
NEW = replace(OLD, max_ahead_ms=1)


class Beside:
    """What lies beside a checkpoint, in memory."""

    def __init__(self) -> None:
        self.kept: dict[int, str] = {}

    def keep_decoding(self, attempt: int, text: str) -> None:
        assert attempt not in self.kept, "what is kept is never written over"
        self.kept[attempt] = text

    def newest_decoding(self) -> str | None:
        return self.kept[max(self.kept)] if self.kept else None


def choose(beside: Any, attempt: int, wanted: Decoding, begun: int | None) -> tuple[Decoding, int | None]:
    return Decodings(beside, attempt, wanted, structlog.get_logger()).choose(begun)


def test_an_epoch_that_was_begun_is_finished_and_then_the_job_file_counts() -> None:
    """The old one up to that epoch, however many attempts it takes; then the new one, kept before it is used."""
    beside = Beside()
    assert choose(beside, 1, OLD, None) == (OLD, None)
    assert choose(beside, 2, NEW, 5) == (OLD, 5)
    assert choose(beside, 3, NEW, 5) == (OLD, 5)
    assert choose(beside, 3, NEW, None) == (NEW, None)
    assert Decoding.parse(beside.kept[3]) == NEW
    assert choose(beside, 4, NEW, 6) == (NEW, None)
    assert choose(beside, 5, OLD, 6) == (NEW, 6)


def test_without_anything_begun_or_kept_the_job_file_counts_at_once() -> None:
    """A checkpoint of an earlier version has nothing beside it; an epoch without rows binds nobody."""
    beside = Beside()
    assert choose(beside, 1, OLD, 3) == (OLD, None)
    assert choose(beside, 2, NEW, None) == (NEW, None)
    assert sorted(beside.kept) == [1, 2]
