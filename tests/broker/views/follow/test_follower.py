"""A view on a real broker: it shows whole milestones, exactly, and nothing else."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.kafka.client import make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, signed
from cutwater.views.query.view import State
from support.views.changelogs import (
    GENERATION,
    HOUR_MS,
    Sold,
    Writing,
    encoded,
    following,
    held_back,
    make_job,
    now_ms,
    until,
)


def test_view_equals_the_rows_of_each_milestone(writing: Writing, tmp_path: Path) -> None:
    """Restored at a milestone and followed from there, the view's rows are that milestone's rows."""
    for epoch in range(3):
        writing.epoch(Sold(f"s{shop}", epoch + shop % 2, 10 * epoch + shop) for shop in range(20))
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
        for epoch in range(3, 8):
            last = writing.epoch(Sold(f"s{shop}", epoch % 3, 10 * epoch + shop) for shop in range(25))
            view.wait_for(last.sequence)
            assert view.rows() == (last.sequence, writing.by_sequence[last.sequence])
        assert view.seen.divergences == 0
        assert [one.sequence for one, _ in view.seen.done] == [3, 4, 5, 6, 7, 8], "one jump, then steps"


def test_nothing_above_the_cut_shows(writing: Writing, tmp_path: Path) -> None:
    """I1: rows of an epoch without milestone are on the changelog and stay invisible, restored or followed."""
    writing.epoch([Sold("a", 1, 1), Sold("b", 1, 2)])
    writing.rows([Sold("a", 1, 99), Sold("new", 1, 99)], epoch=1)
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        view.wait_for(1)
        assert view.rows() == (1, {("a", HOUR_MS): 1, ("b", HOUR_MS): 2})
        writing.epoch([Sold("a", 1, 99), Sold("new", 1, 99)], attempt=2)
        writing.rows([Sold("b", 1, 77)], epoch=2, attempt=2)
        view.wait_for(2)
        assert view.rows() == (2, {("a", HOUR_MS): 99, ("b", HOUR_MS): 2, ("new", HOUR_MS): 99})


def test_old_milestone_with_young_rows_above_is_whole_and_alone(writing: Writing, tmp_path: Path) -> None:
    """I1: looking above the cut tells whether compaction could have struck; what is seen there is not applied."""
    writing.epoch([Sold("a", 1, 1), Sold("b", 1, 2)], written_ms=now_ms() - 48 * HOUR_MS)
    writing.rows([Sold("a", 1, 99), Sold("b", 1, 99), Sold("new", 1, 99)], epoch=1)
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        view.wait_for(1)
        assert view.rows() == (1, {("a", HOUR_MS): 1, ("b", HOUR_MS): 2})


def test_rows_of_a_superseded_attempt_are_not_applied(writing: Writing, tmp_path: Path) -> None:
    """On the tail a row counts only when its header says the milestone's own generation, attempt and epoch."""
    writing.epoch([Sold("a", 1, 1)])
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        view.wait_for(1)
        stale = Sold("a", 1, 50)
        writing.rows([stale], epoch=1, attempt=1)
        written = writing.rows([Sold("a", 1, 2)], epoch=1, attempt=2)
        writing.rows([stale], epoch=1, attempt=1)
        writing.milestone([Sold("a", 1, 2)], written, attempt=2)
        view.wait_for(2)
        assert view.rows() == (2, {("a", HOUR_MS): 2})


@pytest.mark.parametrize("chunk_rows", [1_000, 4])
def test_row_written_twice_by_one_attempt_counts_once(writing: Writing, tmp_path: Path, chunk_rows: int) -> None:
    """A task that ran twice is no divergence: each key counts once, by its last row, also across chunks."""
    rows = [Sold(f"s{number}", 1, number) for number in range(10)]
    twice = writing.rows([Sold("s3", 1, 55), *rows, *rows[:4]], epoch=0)
    writing.milestone(rows, twice)
    twice = writing.rows([*rows, *rows[:7]], epoch=1)
    with following(writing.cluster, writing.job, tmp_path / "view", chunk_rows=chunk_rows) as view:
        view.wait_for(1)
        writing.milestone(rows, twice)
        view.wait_for(2)
        assert view.rows() == (2, writing.by_sequence[2])


@pytest.mark.variations
@pytest.mark.parametrize("chunk_rows", [1_000, 4])
@pytest.mark.parametrize("change", ["digest", "rows", "lost"])
def test_rows_that_do_not_match_stop_the_view(
    writing: Writing, tmp_path: Path, change: str, chunk_rows: int
) -> None:
    """A milestone whose count or digest the changelog does not bear out is never shown; the one before stays."""
    writing.epoch([Sold(f"s{number}", 1, number) for number in range(10)])
    with following(writing.cluster, writing.job, tmp_path / "view", chunk_rows=chunk_rows) as view:
        view.wait_for(1)
        before = view.rows()
        rows = [Sold(f"s{number}", 1, 100 + number) for number in range(10)]
        written = writing.rows(rows[: 9 if change == "lost" else 10], epoch=1)
        lies = {"digest": {"digest": signed(1)}, "rows": {"rows": 9}, "lost": {"rows": 10}}[change]
        writing.milestone(rows, written, **lies)
        reason = view.wait_stopped()
        assert "milestone g1-local-00000000:2" in reason
        assert not view.view.ready
        assert view.rows() == before
        assert view.seen.divergences == 1


@pytest.mark.parametrize("chunk_rows", [1_000, 4])
def test_a_record_in_a_rows_place_stops_the_view(writing: Writing, tmp_path: Path, chunk_rows: int) -> None:
    """As many records as rows, and one of them is an earlier attempt's: the digest tells, whoever wrote it."""
    writing.epoch([Sold(f"s{number}", 1, number) for number in range(10)])
    with following(writing.cluster, writing.job, tmp_path / "view", chunk_rows=chunk_rows) as view:
        view.wait_for(1)
        before = view.rows()
        rows = [Sold(f"s{number}", 1, 100 + number) for number in range(10)]
        written = writing.rows(rows[:9], epoch=1, attempt=2)
        writing.rows([rows[9]._replace(pieces=7)], epoch=1, attempt=1)
        writing.milestone(rows, [*written, encoded(writing.job, rows[9])], attempt=2)
        assert "milestone g1-local-00000000:2" in view.wait_stopped()
        assert view.rows() == before


def test_restart_goes_on_at_the_applied_milestone(writing: Writing, tmp_path: Path) -> None:
    """After a restart the view shows its milestone at once and reads only what came after it."""
    writing.epoch(Sold(f"s{number}", 1, number) for number in range(30))
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        view.wait_for(1)
    writing.epoch([Sold("s1", 1, 7)])
    writing.epoch([Sold("s2", 1, 8), Sold("s3", 2, 9)])
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        assert view.first_shown is not None
        assert view.first_shown.sequence == 1
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
        assert sum(done.records for _, done in view.seen.done) == 3


def test_large_milestone_is_whole_or_not_shown(writing: Writing, tmp_path: Path) -> None:
    """While a milestone is applied in chunks, readers get the one before, whole; then this one, whole."""
    rows = [Sold(f"s{number}", number % 5, 1) for number in range(2_000)]
    writing.epoch(rows)
    with following(writing.cluster, writing.job, tmp_path / "view", chunk_rows=50) as view:
        view.wait_for(1)
        second = [one._replace(pieces=2) for one in rows]
        writing.epoch(second)
        states: list[tuple[int, set[int]]] = []

        def look() -> bool:
            sequence, shown = view.rows()
            states.append((sequence, set(shown.values())))
            assert len(shown) == 2_000
            return sequence == 2

        until(look, "the second milestone")
        assert {sequence: values for sequence, values in states} == {1: {1}, 2: {2}}
        assert all(values == {sequence} for sequence, values in states), "no mixture was ever seen"


@pytest.mark.slow
def test_markers_and_unfinished_transactions_do_not_hang(broker: Any, tmp_path: Path) -> None:
    """A cut may end on a transaction's marker: the range ends by position, not by the last record's offset."""
    job, _ = make_job(tmp_path, partitions=1)
    writing = Writing(broker.cluster, job)
    producer = Producer({**broker.cluster.librdkafka(), "transactional.id": f"{job.name}-odd"})
    producer.init_transactions(20)
    with following(broker.cluster, job, tmp_path / "view", stall_s=10) as view:
        for epoch, abort in enumerate((False, True, False)):
            written = writing.rows([Sold("a", 1, epoch)], epoch)
            producer.begin_transaction()
            if abort:
                producer.produce(writing.topic, key=written[0][0], value=written[0][1], partition=0)
                producer.flush(20)
                producer.abort_transaction(20)
            else:
                headers = [(WRITER_HEADER, f"{GENERATION}/1/{epoch}")]
                producer.produce(
                    writing.topic, key=written[0][0], value=written[0][1], partition=0, headers=headers
                )
                producer.commit_transaction(20)
            last = writing.milestone([Sold("a", 1, epoch)], written)
            view.wait_for(last.sequence)
            assert view.rows() == (last.sequence, {("a", HOUR_MS): epoch})
        assert view.seen.retries == 0
    writing.close()


@pytest.mark.slow
def test_cut_above_the_end_of_the_log_waits(writing: Writing, tmp_path: Path) -> None:
    """An open transaction hides what is committed below the cut: bounded, told, tried again, and then whole."""
    writing.epoch([Sold("a", 1, 1)])
    with following(writing.cluster, writing.job, tmp_path / "view", stall_s=1) as view:
        view.wait_for(1)
        with held_back(writing):
            writing.epoch([Sold("a", 1, 2)])
            until(lambda: view.seen.retries > 1, "a bounded wait to end, and another one")
            assert view.view.milestone.sequence == 1
            assert view.view.status.state is State.WAITING
        view.wait_for(2)
        assert view.rows() == (2, {("a", HOUR_MS): 2})


@pytest.mark.slow
def test_horizon_hides_and_drops(writing: Writing, tmp_path: Path) -> None:
    """Windows ending at or below the horizon are not shown, on the tail and on a restore; segments are dropped."""
    writing.epoch(Sold("a", hour, hour) for hour in range(40))
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        view.wait_for(1)
        assert len(view.rows()[1]) == 40
        # retention 24 h: the horizon comes to stand at hour 12
        writing.epoch([Sold("a", 3, 99), Sold("a", 39, 100)], watermark_ms=36 * HOUR_MS)
        writing.tombstone(Sold("a", 2, 0))
        writing.epoch([Sold("a", 39, 101)])
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
        assert min(hour for _, hour in view.rows()[1]) == 12 * HOUR_MS
        assert view.view.read("a", 0, 13 * HOUR_MS, 10).rows[0][0].start_ms == 12 * HOUR_MS
    with following(writing.cluster, writing.job, tmp_path / "other") as view:
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])


@pytest.mark.slow
def test_tombstone_above_the_horizon_stops_the_view(writing: Writing, tmp_path: Path) -> None:
    """Tombstones are garbage collection: one for a live row means that somebody else writes here."""
    writing.epoch([Sold("a", 1, 1), Sold("b", 1, 1)])
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        view.wait_for(1)
        writing.tombstone(Sold("b", 1, 0))
        writing.epoch([Sold("a", 1, 2)])
        assert "tombstone" in view.wait_stopped()
        assert view.rows() == (1, {("a", HOUR_MS): 1, ("b", HOUR_MS): 1})


@pytest.mark.slow
def test_gap_and_fork_in_the_stream_stop_the_view(writing: Writing, tmp_path: Path) -> None:
    """A milestone that does not name the hash of the one before is a fork: it is not applied."""
    writing.epoch([Sold("a", 1, 1)])
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        view.wait_for(1)
        writing.epoch([Sold("a", 1, 2)], parent_hash=bytes(32))
        assert "fork" in view.wait_stopped()
        assert view.rows() == (1, {("a", HOUR_MS): 1})


@pytest.mark.slow
def test_age_is_told_by_commit_and_heartbeat(writing: Writing, tmp_path: Path) -> None:
    """The age counts from the commit, or from the newest heartbeat of that very milestone."""
    shown = writing.epoch([Sold("a", 1, 1)])
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        view.wait_for(1)
        assert view.view.age_ms(shown, shown.committed_ms + 5_000) == 5_000
        writing.heartbeat(shown.committed_ms + 4_000)
        until(lambda: view.view.age_ms(shown, shown.committed_ms + 5_000) == 1_000, "the heartbeat")
        newer = writing.epoch([Sold("a", 1, 2)])
        view.wait_for(2)
        assert view.view.age_ms(newer, newer.committed_ms + 700) == 700


@pytest.mark.slow
def test_compaction_leaves_gaps_and_overtakes(broker: Any, tmp_path: Path) -> None:
    """A milestone whose values compaction took is not shown; the next that can be whole is, in spite of gaps."""
    job, _ = make_job(tmp_path, partitions=1)
    eager = {
        "min.compaction.lag.ms": "0",
        "segment.ms": "50",
        "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "100",
    }
    writing = Writing(broker.cluster, job, **eager)
    for epoch in range(4):
        writing.epoch([Sold(f"s{number}", 1, epoch) for number in range(50)])
        time.sleep(0.1)
    rows = [Sold(f"s{number}", 1, 9) for number in range(50)]
    written = writing.rows(rows, epoch=4)
    time.sleep(0.1)
    writing.rows([Sold("roll", 1, 1)], epoch=4)  # the active segment is never compacted: begin another
    until(lambda: _offsets(broker.cluster, writing.topic)[0] >= 150, "compaction")
    with following(broker.cluster, job, tmp_path / "view", lambda: now_ms() + 48 * HOUR_MS) as view:
        until(lambda: "overtaken" in view.view.status.reason, "the view to find out")
        assert view.view.milestone is None
        roll = Sold("roll", 1, 1)
        writing.milestone([*rows, roll], [*written, encoded(job, roll)])
        view.wait_for(5)
        assert view.rows() == (5, writing.by_sequence[5])
    writing.close()


def _offsets(cluster: Cluster, topic: str) -> list[int]:
    consumer = make_consumer(cluster)
    try:
        return [one.offset() for one in read_range(consumer, topic, 0, 0)]
    finally:
        consumer.close()
