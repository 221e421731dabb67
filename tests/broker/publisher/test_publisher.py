"""The publisher on a real broker: whole milestones on the output, each once, whatever happens to the process."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from cutwater.client import committed
from cutwater.core.errors import DivergenceError, FencedError, UnavailableError, UsageError
from cutwater.core.job.job import Output
from cutwater.core.protocol import topics
from cutwater.core.state.backlog import Backlog, Entry
from cutwater.publisher import transaction as writer_module
from cutwater.views.changelog import range_consumer as onward_module
from support.views.changelogs import HOUR_MS, Rows, Sold, Writing, make_job, now_ms, until
from support.views.publishing import (
    PublisherProcess,
    crash_at_write,
    create,
    ends,
    finals,
    pieces,
    plain,
    publishing,
    read,
    wait_published,
)


def sold(hour: int, amount: int, shops: int = 40, first: int = 0) -> list[Sold]:
    return [Sold(f"shop-{number}", hour, amount + number) for number in range(first, first + shops)]


def as_rows(rows: list[Sold]) -> Rows:
    return {(one.shop, one.hour * HOUR_MS): one.pieces for one in rows}


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(broker.cluster, make_job(tmp_path)[0])
    create(broker.cluster, made.job)
    yield made
    made.close()


def test_each_milestone_is_published_whole_and_once(writing: Writing, tmp_path: Path) -> None:
    """What `committed()` yields is each epoch's rows, with the milestone's token; an empty epoch yields none."""
    epochs = [sold(1, 5), sold(1, 50, shops=7), [], sold(2, 9, first=30)]
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        for number, rows in enumerate(epochs, 1):
            writing.epoch(rows)
            found = read(writing.cluster, writing.job, number)
    assert [pieces(one) for one in found] == [as_rows(rows) for rows in epochs]
    assert [one.token.sequence for one in found] == [one.first_sequence for one in found] == [1, 2, 3, 4]
    assert len(plain(writing.cluster, writing.job)) == sum(map(len, epochs))


def test_presented_values_reach_the_output(writing: Writing, tmp_path: Path) -> None:
    """A plain consumer reads what users see: sums as decimals, an average instead of its two partials."""
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        writing.epoch([Sold("a", 1, 1234)])
        wait_published(writing.cluster, writing.job, 1)
    (row,) = plain(writing.cluster, writing.job)
    assert (row["sequence"], row["kind"], row["key"], row["sales"], row["pieces"]) == (
        1,
        "update",
        "a",
        1234,
        1234,
    )
    assert (float(row["takings"]), row["mean"]) == (12.34, 12.34)
    assert row["window_start"].timestamp() == HOUR_MS / 1000


def test_changelog_and_output_tell_the_same(writing: Writing, tmp_path: Path) -> None:
    """`committed(source='changelog')` yields the same milestones with the same values as the output."""
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        writing.epoch(sold(1, 5))
        wait_published(writing.cluster, writing.job, 1)
        first = read(writing.cluster, writing.job, 1)[0].token
        for hour in (1, 2, 3):
            writing.epoch(sold(hour, 7 * hour))
        output = read(writing.cluster, writing.job, 4, after=first)
    changelog = read(writing.cluster, writing.job, 4, after=first, source="changelog")

    def told(milestones: list[Any]) -> list[Any]:
        return [(one.token, one.first_sequence, sorted(one.changes, key=str)) for one in milestones]

    assert told(output) == told(changelog)
    assert [one.token.sequence for one in output] == [2, 3, 4]


def test_a_restart_repeats_nothing(writing: Writing, tmp_path: Path) -> None:
    """A publisher that starts again goes on where the last transaction ended: no record comes twice."""
    for round_ in range(3):
        writing.epoch(sold(1, round_))
        with publishing(writing.cluster, writing.job, tmp_path / "store"):
            wait_published(writing.cluster, writing.job, round_ + 1)
    assert len(plain(writing.cluster, writing.job)) == 3 * 40


def test_a_publisher_that_starts_late_publishes_several_as_one_and_says_so(
    writing: Writing, tmp_path: Path
) -> None:
    """Without a position the whole state comes as one, from sequence 1 on; each row with its last value."""
    for hour in (1, 1, 2):
        writing.epoch(sold(hour, hour * 10))
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        (found,) = read(writing.cluster, writing.job, 3)
    assert (found.first_sequence, found.token.sequence) == (1, 3)
    assert pieces(found) == as_rows(sold(1, 10) + sold(2, 20))


def test_a_large_milestone_is_split_and_still_whole(writing: Writing, tmp_path: Path) -> None:
    """More rows than a transaction takes come in several; only the last ends the milestone."""
    with publishing(writing.cluster, writing.job, tmp_path / "store", part_rows=50):
        writing.epoch(sold(1, 5, shops=10))
        wait_published(writing.cluster, writing.job, 1)
        writing.epoch(sold(2, 5, shops=180))
        found = read(writing.cluster, writing.job, 2)
    assert pieces(found[1]) == as_rows(sold(2, 5, shops=180))
    assert len(plain(writing.cluster, writing.job)) == 190


@pytest.mark.variations
@pytest.mark.parametrize("mode", ["updates", "final"])
def test_a_crash_between_two_parts_loses_and_repeats_nothing(
    writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Broken off after a part, the milestone goes on behind that part after a restart."""
    job = finals(writing.job) if mode == "final" else writing.job
    writing.epoch(sold(1, 5, shops=10))
    with publishing(writing.cluster, job, tmp_path / "store", part_rows=50):
        wait_published(writing.cluster, job, 1)
    writes = crash_at_write(monkeypatch, 4)
    writing.epoch(sold(2, 5, shops=230), watermark_ms=4 * HOUR_MS)
    with pytest.raises(KeyboardInterrupt), publishing(writing.cluster, job, tmp_path / "store", part_rows=50):
        until(lambda: writes() == 4, "the crash")
    assert 100 <= len(plain(writing.cluster, job)) <= 160
    with publishing(writing.cluster, job, tmp_path / "store", part_rows=50):
        found = read(writing.cluster, job, 2)
    expected = sold(2, 5, shops=230) + (sold(1, 5, shops=10) if mode == "final" else [])
    assert pieces(found[-1]) == as_rows(expected)
    assert len(plain(writing.cluster, job)) == 240
    assert writes() > 4


def test_a_milestone_of_few_large_rows_is_split_too(writing: Writing, tmp_path: Path) -> None:
    """Parts are bounded in bytes as in rows: 180 rows of about 60 bytes in transactions of 2,000 bytes."""
    writing.epoch(sold(1, 5, shops=10))
    with publishing(writing.cluster, writing.job, tmp_path / "store", part_bytes=2_000):
        wait_published(writing.cluster, writing.job, 1)
        writing.epoch(sold(2, 5, shops=180))
        found = read(writing.cluster, writing.job, 2)
    assert pieces(found[1]) == as_rows(sold(2, 5, shops=180))
    parts = [end.part for end in ends(writing.cluster, writing.job) if end.sequence == 2]
    assert max(parts) >= 4, "the milestone must have been split"


@pytest.mark.variations
@pytest.mark.parametrize("changed", [Output(mode="final"), Output(format="json")])
def test_another_mode_or_format_on_the_same_output_is_refused(
    writing: Writing, tmp_path: Path, changed: Output
) -> None:
    """A restart with another `output` in the job file stops before it writes, and says what to do."""
    writing.epoch(sold(1, 5))
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        wait_published(writing.cluster, writing.job, 1)
    with (
        pytest.raises(UsageError, match=r"'updates avro'.*put the job file back"),
        publishing(writing.cluster, replace(writing.job, output=changed), tmp_path / "other") as errors,
    ):
        until(lambda: errors, "the refusal")
    writing.epoch(sold(1, 6))
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        wait_published(writing.cluster, writing.job, 2)
    assert len(plain(writing.cluster, writing.job)) == 80


@pytest.mark.slow
def test_no_part_goes_out_that_compaction_may_have_touched(
    writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock jumps by two days behind the proof: no more parts come until a later milestone brings the rest."""
    monkeypatch.setattr(onward_module, "_BATCH", 700)  # the clock is looked at once per reading
    jumped = threading.Event()
    late_ms = 48 * HOUR_MS

    def clock() -> int:
        return now_ms() + (late_ms if jumped.is_set() else 0)

    writing.epoch(sold(1, 5, shops=10))
    with publishing(writing.cluster, writing.job, tmp_path / "store", part_rows=700, clock=clock):
        wait_published(writing.cluster, writing.job, 1)
        with jumping(jumped, after_parts=2) as broken_off:
            writing.epoch(sold(2, 5, shops=20_000))
            until(lambda: broken_off, "the breaking off")
            writing.epoch(sold(3, 9, shops=20))
            found = read(writing.cluster, writing.job, 3)
    parts = [end for end in ends(writing.cluster, writing.job) if end.sequence == 2]
    assert not any(end.last for end in parts)
    assert 2 <= broken_off[0] < 20, "of 29 parts some must have gone out, and not all"
    assert (found[-1].first_sequence, found[-1].token.sequence) == (2, 3)
    assert pieces(found[-1]) == as_rows(sold(2, 5, shops=20_000) + sold(3, 9, shops=20))


@contextmanager
def jumping(jumped: threading.Event, after_parts: int) -> Iterator[list[int]]:
    """Sets the event once so many parts of a milestone were written. Yields how many were at each breaking off.

    After the first one the milestone is read again, and looked at above its cut: what that writes is right, too.
    """
    written, real, overtaken = 0, writer_module.OutputWriter.write, Backlog.mark_overtaken
    broken_off: list[int] = []

    def write(self: Any, transaction: writer_module.Transaction) -> None:
        nonlocal written
        real(self, transaction)
        written += not transaction.part.last
        if written >= after_parts:
            jumped.set()

    def breaking_off(self: Any, entry: Entry, looked: bool) -> None:
        broken_off.append(written)
        overtaken(self, entry, looked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer_module.OutputWriter, "write", write)
        patch.setattr(Backlog, "mark_overtaken", breaking_off)
        yield broken_off


@pytest.mark.slow
def test_finals_of_a_milestone_that_was_not_written_survive_the_next_ones_horizon(
    writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken off in a milestone while the next one, whose horizon is far above it, is there: no final is lost."""
    job, real, died = finals(writing.job), writer_module.OutputWriter.write, threading.Event()

    def dying(self: Any, transaction: writer_module.Transaction) -> None:
        if transaction.plan.to.milestone.sequence == 2:
            # Only time can show that the reader does not go on while this milestone is written.
            time.sleep(2)
            died.set()
            raise KeyboardInterrupt
        real(self, transaction)

    writing.epoch(sold(1, 5))
    with publishing(writing.cluster, job, tmp_path / "store"):
        wait_published(writing.cluster, job, 1)
    writing.epoch([], watermark_ms=2 * HOUR_MS)
    writing.epoch(sold(500, 1), watermark_ms=499 * HOUR_MS)
    with monkeypatch.context() as patch:
        patch.setattr(writer_module.OutputWriter, "write", dying)
        with pytest.raises(KeyboardInterrupt), publishing(writing.cluster, job, tmp_path / "store"):
            until(died.is_set, "the crash")
    with publishing(writing.cluster, job, tmp_path / "store"):
        found = read(writing.cluster, job, 3)
    assert [pieces(one) for one in found if one.changes] == [as_rows(sold(1, 5))]


def test_parts_that_compaction_overtook_go_on_with_a_later_milestone(writing: Writing, tmp_path: Path) -> None:
    """Two days pass while it is read, and rows above the cut may have taken older values: parts are out by then.

    They stay, the rest comes with the next milestone, and the end markers count both.
    """
    writing.epoch(sold(1, 5, shops=230))
    writing.rows(sold(2, 7, shops=3), epoch=1)
    jumped = threading.Event()

    def clock() -> int:
        return now_ms() + (48 * HOUR_MS if jumped.is_set() else 0)

    with (
        jumping(jumped, after_parts=2) as broken_off,
        publishing(writing.cluster, writing.job, tmp_path / "store", part_rows=50, clock=clock),
    ):
        until(lambda: len(broken_off) > 1, "the breaking off, and nobody who begins again")
        assert plain(writing.cluster, writing.job), "parts must be on the output by then"
        writing.epoch(sold(2, 9, shops=20))
        (found,) = read(writing.cluster, writing.job, 2)
    assert (found.first_sequence, found.token.sequence) == (1, 2)
    assert pieces(found) == as_rows(sold(1, 5, shops=230) + sold(2, 9, shops=20))


def test_a_publisher_that_starts_late_publishes_windows_below_the_horizon_too(
    writing: Writing, tmp_path: Path
) -> None:
    """Mode `final` promises each window once, also those that were closed and passed before its first start."""
    job = finals(writing.job)
    writing.epoch(sold(1, 5) + sold(20, 1))
    writing.epoch(sold(29, 3), watermark_ms=30 * HOUR_MS)
    assert writing.last is not None
    assert writing.last.horizon_ms > 2 * HOUR_MS
    with publishing(writing.cluster, job, tmp_path / "store"):
        (found,) = read(writing.cluster, job, 2)
    assert pieces(found) == as_rows(sold(1, 5) + sold(20, 1) + sold(29, 3))


def test_final_rows_come_once_when_the_watermark_has_closed_their_window(writing: Writing, tmp_path: Path) -> None:
    """Mode `final`: nothing while a window is open, its last value once it is closed, nothing afterwards."""
    job = finals(writing.job)
    with publishing(writing.cluster, job, tmp_path / "store"):
        writing.epoch(sold(1, 5) + sold(3, 1))
        wait_published(writing.cluster, job, 1)
        writing.epoch(sold(1, 50, shops=7), watermark_ms=HOUR_MS)
        writing.epoch(sold(2, 9), watermark_ms=2 * HOUR_MS)
        writing.epoch([], watermark_ms=2 * HOUR_MS + 1)
        writing.epoch(sold(2, 90, shops=3), watermark_ms=3 * HOUR_MS)
        found = read(writing.cluster, job, 5)
    assert [one.changes for one in found[:2]] == [(), ()]
    assert pieces(found[2]) == as_rows(sold(1, 5)) | as_rows(sold(1, 50, shops=7))
    assert found[3].changes == ()
    assert pieces(found[4]) == as_rows(sold(2, 9)) | as_rows(sold(2, 90, shops=3))
    assert {change.kind for one in found for change in one.changes} == {"final"}


@pytest.mark.slow
def test_a_window_that_late_events_amend_is_final_once_and_corrected(writing: Writing, tmp_path: Path) -> None:
    """Whatever it closes besides; a restart repeats none of it. This process has an older job file."""
    job = finals(writing.job)
    assert job.amend_for_ms is None
    steps = (
        (sold(1, 5) + sold(3, 1), {"watermark_ms": 2 * HOUR_MS}),
        (sold(1, 50, shops=7) + sold(3, 2), {"amended": 7}),
        (sold(1, 51, shops=3), {"watermark_ms": 4 * HOUR_MS, "amended": 3}),
    )
    with publishing(writing.cluster, job, tmp_path / "store"):
        for number, (rows, changes) in enumerate(steps, 1):
            writing.epoch(rows, **changes)
            wait_published(writing.cluster, job, number)
    writing.epoch(sold(1, 60, shops=2), amended=2)
    writing.epoch(sold(3, 70, shops=2), watermark_ms=5 * HOUR_MS, amended=2)
    with publishing(writing.cluster, job, tmp_path / "store"):
        wait_published(writing.cluster, job, 5)
    found = read(writing.cluster, job, 5)
    assert [{one.kind for one in each.changes} for each in found] == [
        {"final"},
        {"correction"},
        {"final", "correction"},
        {"correction"},
        {"correction"},
    ]
    assert pieces(found[0]) == as_rows(sold(1, 5))
    assert pieces(found[1]) == as_rows(sold(1, 50, shops=7))
    assert pieces(found[2]) == as_rows(sold(3, 2)) | as_rows(sold(1, 51, shops=3))
    assert pieces(found[3]) == as_rows(sold(1, 60, shops=2))
    assert pieces(found[4]) == as_rows(sold(3, 70, shops=2))
    assert len(plain(writing.cluster, job)) == sum(len(one.changes) for one in found)


@pytest.mark.variations
@pytest.mark.parametrize("lost", [True, False])
def test_finals_survive_a_restart_and_a_lost_store(writing: Writing, tmp_path: Path, lost: bool) -> None:
    """The store is rebuilt where its folder is gone; windows come once, when they are closed."""
    job = finals(writing.job)
    writing.epoch(sold(1, 5) + sold(2, 1), watermark_ms=2 * HOUR_MS)
    with publishing(writing.cluster, job, tmp_path / "store-0"):
        wait_published(writing.cluster, job, 1)
    writing.epoch(sold(2, 30, shops=5), watermark_ms=3 * HOUR_MS)
    with publishing(writing.cluster, job, tmp_path / ("store-1" if lost else "store-0")):
        found = read(writing.cluster, job, 2)
    assert pieces(found[0]) == as_rows(sold(1, 5))
    assert pieces(found[1]) == as_rows(sold(2, 1)) | as_rows(sold(2, 30, shops=5))
    assert len(plain(writing.cluster, job)) == 80


@pytest.mark.slow
def test_a_window_closed_and_passed_by_the_horizon_at_once_is_still_published(
    writing: Writing, tmp_path: Path
) -> None:
    """A watermark that jumps over the whole retention closes windows that the view never shows closed."""
    job = finals(writing.job)
    with publishing(writing.cluster, job, tmp_path / "store"):
        writing.epoch(sold(1, 5))
        wait_published(writing.cluster, job, 1)
        writing.epoch(sold(500, 1), watermark_ms=499 * HOUR_MS)
        found = read(writing.cluster, job, 2)
    assert pieces(found[1]) == as_rows(sold(1, 5))


@pytest.mark.slow
def test_an_older_publisher_is_fenced(writing: Writing, tmp_path: Path) -> None:
    """A second publisher takes over; the first stops, and nothing comes twice.

    Seldom the first commits in the very moment in which the broker fences it, and Kafka 4.1's coordinator then
    answers UNKNOWN_SERVER_ERROR ("already a pending state PREPARE_EPOCH_FENCE").
    """
    writing.epoch(sold(1, 5))
    with ExitStack() as first:
        ended = first.enter_context(publishing(writing.cluster, writing.job, tmp_path / "a"))
        wait_published(writing.cluster, writing.job, 1)
        epochs = 1
        with publishing(writing.cluster, writing.job, tmp_path / "b"):
            while not ended and epochs < 100:  # it may publish some before the second is ready
                writing.epoch(sold(1, epochs))
                epochs += 1
                time.sleep(0.1)
            wait_published(writing.cluster, writing.job, epochs)
        with pytest.raises(
            (FencedError, UnavailableError), match=r"a newer process has taken over|Unknown broker error"
        ):
            first.close()
    assert len(plain(writing.cluster, writing.job)) == 40 * epochs


@pytest.mark.slow
def test_rows_that_the_milestone_does_not_prove_are_never_published(writing: Writing, tmp_path: Path) -> None:
    """A wrong digest stops the publisher before the first record of that milestone."""
    with ExitStack() as stack:
        errors = stack.enter_context(publishing(writing.cluster, writing.job, tmp_path / "a", part_rows=7))
        writing.epoch(sold(1, 5))
        wait_published(writing.cluster, writing.job, 1)
        writing.epoch(sold(1, 6), digest=12345)
        until(lambda: errors, "the refusal")
        with pytest.raises(DivergenceError, match="digest 12345"):
            stack.close()
    assert {row["sequence"] for row in plain(writing.cluster, writing.job)} == {1}


@pytest.mark.slow
def test_json_output(broker: Any, tmp_path: Path) -> None:
    """`output.format: json`: any consumer can read it; an end marker has no key and says `end`."""
    job = replace(make_job(tmp_path)[0], output=Output(format="json"))
    writing = Writing(broker.cluster, job)
    with publishing(broker.cluster, job, tmp_path / "store"):
        writing.epoch([Sold("ä", 1, 1234)])
        (found,) = read(broker.cluster, job, 1)
    assert found.changes[0].values == {"sales": 1234, "pieces": 1234, "takings": "12.34", "mean": 12.34}
    consumer = Consumer({**broker.cluster.librdkafka(), "group.id": job.name, "auto.offset.reset": "earliest"})
    consumer.assign(
        [TopicPartition(topics.output(job.name), number, 0) for number in range(job.shards.partitions)]
    )
    values = [json.loads(message.value()) for message in consumer.consume(4, timeout=20)]
    consumer.close()
    rows = [one for one in values if "end" not in one]
    assert (len(values), rows[0]["key"], rows[0]["window_start"]) == (4, "ä", "1970-01-01T01:00:00Z")
    assert sum(one["rows"] for one in values if "end" in one) == 1


@pytest.mark.slow
def test_a_token_that_is_not_there_is_refused(writing: Writing, tmp_path: Path) -> None:
    """An unknown token is an error that says what to do, from both sources; never a silent start elsewhere."""
    writing.epoch(sold(1, 5))
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        token = read(writing.cluster, writing.job, 1)[0].token
    for source in ("output", "changelog"):
        with pytest.raises(UsageError, match="does not hold"):
            next(committed(writing.job, writing.cluster, after=replace(token, sequence=7), source=source))
        assert next(committed(writing.job, writing.cluster, after=token, source=source, idle_s=1), None) is None


@pytest.mark.slow
def test_committed_is_whole_while_the_publisher_is_killed_at_random(broker: Any, tmp_path: Path) -> None:
    """kill -9 again and again under load: each milestone comes once, in order, and with all of its rows."""
    job, path = make_job(tmp_path)
    writing, rng = Writing(broker.cluster, job), random.Random(11)
    create(broker.cluster, job)
    epochs = 40
    expected: list[Rows] = []
    written = threading.Event()

    def write() -> None:
        for number in range(epochs):
            rows = sold(number // 10, number, shops=rng.randrange(1, 400))
            writing.epoch(rows)
            expected.append(as_rows(rows))
            time.sleep(0.15)
        written.set()

    writer = threading.Thread(target=write)
    process = PublisherProcess(broker.cluster, path, tmp_path / "data")
    until(lambda: b"ready" in process.log.read_bytes(), "the first start")
    writer.start()
    kills = 0
    while not written.is_set():
        time.sleep(rng.uniform(0.8, 2.0))
        kills += process.kill() == -9
        process = PublisherProcess(broker.cluster, path, tmp_path / "data")
    try:
        found = read(broker.cluster, job, epochs)
    finally:
        process.kill()
        writer.join(20)
    assert kills >= 2, "the kills must have happened"
    assert [one.first_sequence for one in found] == [1, *(one.token.sequence + 1 for one in found[:-1])]
    assert [pieces(one) for one in found] == [_merged(expected, one) for one in found]


def _merged(epochs: list[Rows], milestone: Any) -> Rows:
    merged: Rows = {}
    for rows in epochs[milestone.first_sequence - 1 : milestone.token.sequence]:
        merged |= rows
    return merged
