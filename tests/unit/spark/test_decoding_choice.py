"""Which decoding a query starts with: that of what was begun, and the job file's from then on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.job.event_decoding import Decoding
from cutwater_spark.epoch.decoding_choice import Decodings

JOB = load_job(Path(__file__).parents[3] / "deploy" / "jobs" / "flights.yaml")
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


class Several(Beside):
    """Attempts that keep more than one: the newest is the newest attempt's last."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[tuple[int, int, str]] = []

    def keep_decoding(self, attempt: int, text: str) -> None:
        self.all.append((attempt, len(self.all), text))

    def newest_decoding(self) -> str | None:
        return max(self.all)[2] if self.all else None


def holding(beside: Any, attempt: int, wanted: Decoding = OLD) -> Decodings:
    return Decodings(beside, attempt, wanted, structlog.get_logger(), holds=True)


def test_which_events_are_held_is_what_was_decided_last() -> None:
    """By whatever attempt; a job file without max_jump holds none, behind the epoch that was begun."""
    beside = Several()
    first = holding(beside, 1)
    assert first.choose(None) == (OLD, None)
    first.hold(7)
    assert first.choose(None) == (OLD.holding(7), None)
    assert holding(beside, 2).choose(3) == (OLD.holding(7), None), "begun with it, and finished with it"
    changed = holding(beside, 3, NEW)
    assert changed.choose(4) == (OLD.holding(7), 4)
    assert changed.choose(None) == (NEW.holding(7), None)
    assert choose(beside, 4, NEW, 5) == (NEW.holding(7), 5)
    assert choose(beside, 5, NEW, None) == (NEW, None)


def test_an_older_driver_decides_nothing_for_the_next_attempt() -> None:
    """It does not know yet that it is fenced, and holds something: what is begun meanwhile is finished so."""
    beside = Several()
    older = holding(beside, 1)
    older.choose(None)
    assert holding(beside, 2).choose(None) == (OLD, None)
    older.hold(7)
    assert holding(beside, 3).choose(1) == (OLD, None), "as attempt 2 has begun epoch 1"


def test_a_floor_stays_until_it_is_raised_and_a_cleaning_until_it_has_ended() -> None:
    """Whoever begins again goes on with them; the first of a generation is given."""
    beside: Any = Several()

    def driver(attempt: int) -> Decodings:
        return Decodings(beside, attempt, OLD, structlog.get_logger(), first_floor=lambda: 70)

    one = driver(1)
    assert one.choose(None) == (OLD.closing(70), None)
    one.raise_floor(90)
    two = driver(2)
    assert two.choose(None) == (OLD.closing(90, cleans=True), None)
    two.end_cleaning()
    assert driver(3).choose(4) == (OLD.closing(90), None)
    assert choose(beside, 4, OLD, 5) == (OLD.closing(90), 5), "a job file without it: what was begun is finished"
    assert choose(beside, 4, OLD, None) == (OLD, None)
