"""The follower of a job: new records, a promotion, brokers that go away and come back, and a bug of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.console.follower import AGAIN_S, JobFollower
from cutwater.console.kafka_reader import milestones_in, published_position
from cutwater.core.errors import UnavailableError
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.output.position import nothing
from cutwater.core.protocol import topics
from cutwater.operations.job_status import Read
from support.console.sample_job import (
    AWAY,
    NOW_MS,
    ConstructedReader,
    ConstructedView,
    follower,
    last_status,
    milestones,
    new_epoch,
)
from support.harness import wait_until
from support.protocol_samples import GENERATION, JOB, OTHER


def newest_of(made: JobFollower) -> int:
    with made.reading() as picture:
        return picture.timeline.last_sequence


def test_new_records_move_the_picture() -> None:
    """A barrier, its milestone and the publisher's position; the view's step is observed."""
    reader, view = ConstructedReader(), ConstructedView(newest=400)
    made = follower(reader, view)
    made.step()
    last = list(milestones(400, 12))[-1]
    reader.coming = new_epoch(last)
    record = reader.coming[1].value
    position = replace(nothing(JOB, GENERATION, "f"), milestone=record)
    at_ms = last.committed_ms + 5_400
    reader.coming.append(Read(topics.published(JOB), 10**9, at_ms, protocol_records.encode(position)))
    view.newest = 401
    made.step()
    with made.reading() as picture:
        (newest,) = picture.timeline.newest(1)
        assert newest["sequence"] == 401
        assert newest["steps"]["published"] == 400
        assert newest["steps"]["applied"] == max(0, NOW_MS + 2_000 - newest["committed_ms"])
        assert picture.status.sequence == 401


def test_a_promotion_continues_with_the_new_generation() -> None:
    reader = ConstructedReader()
    made = follower(reader)
    made.step()
    last = list(milestones(400, 12))[-1]
    promoted = replace(last, generation=OTHER, sequence=401, committed_ms=last.committed_ms + 1)
    reader.coming = [Read(topics.milestones(JOB), 10**9, 0, protocol_records.encode(promoted))]
    reader.status = lambda: last_status(promoted, OTHER)  # type: ignore[method-assign]
    made.step()
    with made.reading() as picture:
        assert picture.status.generation == OTHER
        assert list(picture.reigns.by_id) == [GENERATION, OTHER]


def test_brokers_that_are_away_from_the_start() -> None:
    """The page says so, and the history is read when they answer."""
    reader = ConstructedReader(away=True)
    made = follower(reader)
    assert made.step() == AGAIN_S
    standing = made.standing_json()
    assert (standing["state"], standing["problem"], standing["read_ms"]) == ("away", AWAY, None)
    with pytest.raises(UnavailableError, match="do not answer"), made.reading():
        pass
    reader.away = False
    made.step()
    assert made.standing_json()["state"] == "live"
    assert newest_of(made) == 400


def test_a_history_that_breaks_off_is_read_again() -> None:
    reader = ConstructedReader()
    made, whole = follower(reader), reader.history

    def broken() -> Any:
        yield from list(whole())[:40]
        raise UnavailableError(AWAY)

    reader.history = broken  # type: ignore[method-assign]
    assert made.step() == AGAIN_S
    reader.history = whole  # type: ignore[method-assign]
    made.step()
    with made.reading() as picture:
        assert len(picture.timeline) == 400
        assert picture.reigns.by_id[GENERATION].milestones == 400


def test_an_unexpected_error_is_shown_as_a_bug() -> None:
    """The thread stays: it is the only one that could tell."""
    reader = ConstructedReader()
    made = follower(reader)

    def wrong(_status: JobStatus) -> Sequence[Read]:
        raise ZeroDivisionError("x")

    reader.poll = wrong  # type: ignore[method-assign]
    made.start()
    try:
        wait_until(lambda: made.standing_json()["state"] == "away", "it noticed the error")
        assert "bug of the console" in made.standing_json()["problem"]
    finally:
        made.stop()


def test_the_thread_ends() -> None:
    made = follower(tick_s=0.01)
    before = threading.active_count()
    made.start()
    wait_until(lambda: made.standing_json()["state"] == "live", "it read everything")
    made.stop()
    wait_until(lambda: threading.active_count() <= before, "the thread ended")


def test_a_census_that_cannot_be_read_is_left_out() -> None:
    view = ConstructedView()
    view.census = lambda: {"counted": "no time"}  # type: ignore[method-assign]
    made = follower(view=view)
    made.step()
    with made.reading() as picture:
        assert picture.state.picture()["cells"] == []
    assert made.standing_json()["state"] == "live"


def test_records_of_others_are_not_milestones() -> None:
    """Unreadable bytes, other topics and other records."""
    (one,) = milestones(1, 2)
    value = protocol_records.encode(one)
    reads = [
        Read(topics.milestones(JOB), 0, 0, b"\xff"),
        Read(topics.barriers(JOB), 0, 0, value),
        Read(topics.milestones(JOB), 1, 0, value),
    ]
    assert list(milestones_in(reads, JOB)) == [protocol_records.decode(value)]
    assert published_position(value) == 0
    assert published_position(b"") == 0
    assert published_position(protocol_records.encode(nothing(JOB, GENERATION, "f"))) == 0
