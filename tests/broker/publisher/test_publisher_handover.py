"""The publisher over a hand-over of generations, on a real broker: what differs comes once, and is marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from cutwater.adapters.kafka.admin import admin_client, delete_topics, ensure_topics
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import DivergenceError, LostRecordsError
from cutwater.core.job.job import Job, Output
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.log_evidence import Evidence
from cutwater.core.state.bulk_load import BULK_RECORDS
from cutwater.publisher.handover import handover
from support.views.changelogs import GENERATION, HOUR_MS, Rows, Sold, Writing, make_job, now_ms, until
from support.views.generation_player import Next
from support.views.output_rows import (
    as_rows,
    expected,
    folded,
    kinds,
    require_contiguous,
    require_no_repeat,
    sold,
    told,
)
from support.views.publishing import create, ends, in_mode, make, publishing, read, wait_published

MODES = ("updates", "final")


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(broker.cluster, make_job(tmp_path, partitions=4)[0])
    create(broker.cluster, made.job)
    yield made
    made.close()


@pytest.mark.variations
@pytest.mark.parametrize("least_records", [1, BULK_RECORDS])
@pytest.mark.parametrize("mode", MODES)
def test_a_hand_over_from_4_to_6_partitions_publishes_what_differs(
    writing: Writing, tmp_path: Path, mode: str, least_records: int
) -> None:
    """Open windows go on as updates; a closed one that changed is a correction; the rest is not said again."""
    job = in_mode(writing.job, mode)
    with publishing(writing.cluster, job, tmp_path / "store", least_records=least_records):
        writing.epoch(sold(1, 5) + sold(2, 7))
        wait_published(writing.cluster, job, 1)
        writing.epoch(sold(3, 1), watermark_ms=2 * HOUR_MS)
        writing.epoch(sold(3, 2), watermark_ms=2 * HOUR_MS)
        wait_published(writing.cluster, job, 3)
        after = Next(writing, start=2)
        after.promoted(sold(1, 60, shops=3) + sold(3, 2) + sold(4, 9, shops=5), watermark_ms=3 * HOUR_MS)
        after.epoch(sold(4, 10, shops=5) + sold(5, 1), watermark_ms=3 * HOUR_MS)
        after.epoch([], watermark_ms=5 * HOUR_MS)
        found = read(writing.cluster, job, 6)
    require_contiguous(found)
    assert [one.token.generation for one in found] == [GENERATION] * 3 + [after.generation] * 3
    corrections = {"correction": as_rows(sold(1, 60, shops=3))}
    if mode == "final":
        assert kinds(found[3]) == {**corrections, "final": as_rows(sold(2, 7))}
        assert kinds(found[5]) == {"final": as_rows(sold(3, 2) + sold(4, 10, shops=5))}
    else:
        assert kinds(found[3]) == {**corrections, "update": as_rows(sold(4, 9, shops=5))}
        assert kinds(found[4]) == {"update": as_rows(sold(4, 10, shops=5) + sold(5, 1))}
    rows = told(writing, job)
    require_no_repeat(rows)
    assert folded(rows, 0) == expected(after, job)
    assert not any(end.rewinds_to for end in ends(writing.cluster, job))


@pytest.mark.variations
@pytest.mark.parametrize("least_records", [1, BULK_RECORDS])
@pytest.mark.parametrize("mode", MODES)
def test_a_rollback_takes_back_what_came_after(
    writing: Writing, tmp_path: Path, mode: str, least_records: int
) -> None:
    """Changed rows come as corrections, vanished ones as tombstones; a window closed again is marked, too."""
    job = in_mode(writing.job, mode)
    with publishing(writing.cluster, job, tmp_path / "store", least_records=least_records):
        open_before, open_after = sold(5, 1, shops=3), sold(5, 2, shops=3)
        writing.epoch(sold(1, 5) + sold(2, 7) + open_before, watermark_ms=2 * HOUR_MS)
        wait_published(writing.cluster, job, 1)
        vanished = sold(2, 1, first=50, shops=4) + sold(3, 1)
        writing.epoch(sold(2, 8, shops=20) + vanished + open_after, watermark_ms=4 * HOUR_MS)
        wait_published(writing.cluster, job, 2)
        after = Next(writing, start=1, partitions=2, rewinds=True)
        after.promoted([], watermark_ms=2 * HOUR_MS)
        assert folded_at(writing, after, job, 3) == expected(after, job)
        after.epoch(sold(2, 9, shops=2), watermark_ms=3 * HOUR_MS)
        after.epoch(sold(9, 9, shops=2), watermark_ms=10 * HOUR_MS)
        found = read(writing.cluster, job, 5)
    require_contiguous(found)
    assert [one.rewinds_to for one in found] == [0, 0, 1, 0, 0]
    gone = dict.fromkeys(as_rows(vanished), -1)
    if mode == "final":
        gone |= {name: -1 for name in as_rows(sold(2, 0))}  # the window is open again
        assert kinds(found[2]) == {"tombstone": gone}
        assert kinds(found[3]) == {"correction": as_rows(sold(2, 7) + sold(2, 9, shops=2))}
        assert kinds(found[4]) == {"final": as_rows(open_before + sold(9, 9, shops=2))}
    else:
        assert kinds(found[2]) == {"tombstone": gone, "correction": as_rows(sold(2, 7, shops=20) + open_before)}
        assert kinds(found[3]) == {"update": as_rows(sold(2, 9, shops=2))}
    rows = told(writing, job)
    require_no_repeat(rows)
    assert folded(rows, 0) == expected(after, job)


@pytest.mark.slow
@pytest.mark.variations
@pytest.mark.parametrize("least_records", [1, BULK_RECORDS])
@pytest.mark.parametrize("mode", MODES)
def test_what_changed_before_the_new_horizon_passed_it_is_said(
    writing: Writing, tmp_path: Path, mode: str, least_records: int
) -> None:
    """Windows that closed, and are not part of the state any more: of the published one they were."""
    job = in_mode(writing.job, mode)
    with publishing(writing.cluster, job, tmp_path / "store", least_records=least_records):
        writing.epoch(sold(1, 5) + sold(2, 7))
        wait_published(writing.cluster, job, 1)
        after = Next(writing, start=1)
        after.promoted(sold(2, 8) + sold(3, 1), watermark_ms=5 * HOUR_MS, horizon_ms=4 * HOUR_MS)
        found = read(writing.cluster, job, 2)
    last = sold(2, 8) + sold(3, 1)
    wanted = {"final": as_rows(sold(1, 5) + last)} if mode == "final" else {"update": as_rows(last)}
    assert kinds(found[1]) == wanted


def folded_at(writing: Writing, after: Next, job: Job, sequence: int) -> Rows:
    """What a plain reader holds once a milestone is published."""
    wait_published(writing.cluster, job, sequence)
    return folded(told(writing, job), 0)


@pytest.mark.slow
@pytest.mark.variations
@pytest.mark.parametrize("mode", MODES)
def test_a_publisher_that_starts_late_goes_through_both_generations(
    writing: Writing, tmp_path: Path, mode: str
) -> None:
    """It was away over the promotion: what is left of the old generation comes first, then the difference."""
    job = in_mode(writing.job, mode)
    writing.epoch(sold(1, 5) + sold(2, 7))
    with publishing(writing.cluster, job, tmp_path / "store"):
        wait_published(writing.cluster, job, 1)
    writing.epoch(sold(2, 8), watermark_ms=2 * HOUR_MS)
    writing.epoch(sold(3, 1), watermark_ms=3 * HOUR_MS)
    after = Next(writing, start=3)
    after.promoted(sold(3, 2), watermark_ms=3 * HOUR_MS)
    after.epoch(sold(4, 3), watermark_ms=4 * HOUR_MS)
    with publishing(writing.cluster, job, tmp_path / "store"):
        found = read(writing.cluster, job, 5)
    require_contiguous(found)
    assert [one.token.sequence for one in found] == [1, 2, 3, 4, 5]
    assert {kind for one in found for kind in kinds(one)} == {"final" if mode == "final" else "update"}
    rows = told(writing, job)
    require_no_repeat(rows)
    assert folded(rows, 0) == expected(after, job)


def test_an_output_that_begins_behind_a_hand_over_has_the_promoted_state(writing: Writing, tmp_path: Path) -> None:
    """The first publisher of all starts when the second generation writes: one milestone, and no correction."""
    writing.epoch(sold(1, 5) + sold(2, 7))
    after = Next(writing, start=1)
    after.promoted(sold(2, 8))
    with publishing(writing.cluster, writing.job, tmp_path / "store", generation=after.generation):
        (found,) = read(writing.cluster, writing.job, 2)
    assert (found.first_sequence, found.token.generation) == (1, after.generation)
    assert kinds(found) == {"update": as_rows(sold(1, 5) + sold(2, 8))}


@pytest.mark.slow
def test_json_says_it_all_too(broker: Any, tmp_path: Path) -> None:
    """In JSON a tombstone's measures are null, and the end marker says where it rewinds to."""
    job = replace(make_job(tmp_path, partitions=4)[0], output=Output(format="json"))
    writing = Writing(broker.cluster, job)
    with publishing(writing.cluster, job, tmp_path / "store"):
        writing.epoch(sold(1, 5, shops=3))
        wait_published(writing.cluster, job, 1)
        writing.epoch(sold(1, 6, shops=1) + sold(2, 1, shops=1))
        wait_published(writing.cluster, job, 2)
        after = Next(writing, start=1, rewinds=True)
        after.promoted([])
        found = read(writing.cluster, job, 3)
    assert kinds(found[2]) == {
        "correction": as_rows(sold(1, 5, shops=1)),
        "tombstone": {("shop-0", 2 * HOUR_MS): -1},
    }
    gone = next(one for one in found[2].changes if one.kind == "tombstone")
    assert (set(gone.values.values()), found[2].rewinds_to) == ({None}, 1)
    assert folded(told(writing, job), 0) == expected(after, job)


@pytest.mark.slow
def test_where_the_published_state_is_lost_every_row_is_a_correction(writing: Writing, tmp_path: Path) -> None:
    """Two days late, and something stands above the old generation's last cut: compaction may have come."""

    def late() -> int:
        return now_ms() + 48 * HOUR_MS

    job = writing.job
    writing.epoch(sold(1, 5) + sold(2, 7))
    with publishing(writing.cluster, job, tmp_path / "store"):
        wait_published(writing.cluster, job, 1)
    writing.rows(sold(2, 8, shops=1), epoch=1)
    after = Next(writing, start=1)
    after.promoted(sold(2, 9, shops=2))
    with publishing(writing.cluster, job, tmp_path / "store", clock=late):
        found = read(writing.cluster, job, 2)
    require_contiguous(found)
    assert kinds(found[1]) == {"correction": as_rows(sold(1, 5) + sold(2, 7) + sold(2, 9, shops=2))}
    assert folded(told(writing, job), 0) == expected(after, job)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_an_old_changelog_that_is_deleted_does_not_end_the_output(
    writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The last milestones of it can be published no more: they come as one with the next generation's first.

    Mode `final` has the published state in its own store.
    """
    monkeypatch.setattr(handover, "GONE_S", 0.5)
    job = in_mode(writing.job, mode)
    writing.epoch(sold(1, 5) + sold(2, 7), watermark_ms=2 * HOUR_MS)
    with publishing(writing.cluster, job, tmp_path / "store"):
        wait_published(writing.cluster, job, 1)
    writing.epoch(sold(2, 8, shops=3), watermark_ms=2 * HOUR_MS)
    after = Next(writing, start=2)
    after.promoted(sold(3, 1), watermark_ms=3 * HOUR_MS)
    delete_topics(writing.cluster, [writing.topic])
    with publishing(writing.cluster, job, tmp_path / "store"):
        found = read(writing.cluster, job, 3)
    require_contiguous(found)
    assert [one.token.sequence for one in found] == [1, 3]
    if mode == "final":
        assert kinds(found[1]) == {"final": as_rows(sold(2, 7) + sold(2, 8, shops=3))}
    else:
        assert kinds(found[1]) == {"correction": after.state}
    assert folded(told(writing, job), 0) == expected(after, job)


def evidence_of(writing: Writing) -> Evidence:
    """What a driver notes of the changelog."""
    places = [TopicPartition(writing.topic, number) for number in range(writing.job.shards.partitions)]
    return LogCheck(writing.cluster).read_state(places).evidence


def make_again(writing: Writing, *epochs: list[Sold]) -> None:
    """Somebody deletes the changelog, and another one of its name gets as many rows of the same epochs."""
    delete_topics(writing.cluster, [writing.topic])
    owned = topics.generation_topics(writing.job.name, writing.generation, writing.job.shards.partitions)
    ensure_topics(writing.cluster, [one for one in owned if one.name == writing.topic])
    writing.renew()
    for epoch, rows in enumerate(epochs):
        writing.rows(rows, epoch)


@pytest.mark.slow
def test_a_promoted_generation_with_another_log_below_its_milestone_is_refused(
    writing: Writing, tmp_path: Path
) -> None:
    """Although count and digest of its rows fit. Nothing of the generation is published."""
    job = writing.job
    writing.epoch(sold(1, 5) + sold(2, 7))
    with publishing(writing.cluster, job, tmp_path / "store"):
        wait_published(writing.cluster, job, 1)
    after = Next(writing, start=1)
    after.promoted(sold(2, 8), evidence=evidence_of(after))
    make_again(after, [Sold(shop, start // HOUR_MS, pieces) for (shop, start), pieces in after.state.items()])
    with (
        pytest.raises(LostRecordsError, match=f"{after.topic} was deleted and recreated"),
        publishing(writing.cluster, job, tmp_path / "store") as errors,
    ):
        until(lambda: errors or sequences_of(writing) > {1}, "the publisher to stop")
    assert sequences_of(writing) == {1}


def sequences_of(writing: Writing) -> set[int]:
    """The sequences that the output has an end marker of."""
    return {end.sequence for end in ends(writing.cluster, writing.job)}


@pytest.mark.slow
def test_a_published_state_of_which_the_log_is_another_one_is_not_compared_with(
    writing: Writing, tmp_path: Path
) -> None:
    """It would hide what differs: every row is a correction, as where the old changelog is gone."""
    job, changed = writing.job, sold(1, 60)
    writing.epoch(sold(1, 5) + sold(2, 7))
    writing.epoch(sold(2, 8, shops=3), evidence=evidence_of(writing))
    with publishing(writing.cluster, job, tmp_path / "store"):
        wait_published(writing.cluster, job, 2)
    after = Next(writing, start=2)
    after.promoted(changed)
    make_again(writing, changed + sold(2, 7), sold(2, 8, shops=3))
    with publishing(writing.cluster, job, tmp_path / "store"):
        found = read(writing.cluster, job, 3)
    assert kinds(found[-1]) == {"correction": after.state}
    assert folded(told(writing, job), 0) == expected(after, job)


@pytest.mark.slow
def test_partitions_that_were_added_to_the_output_are_refused(writing: Writing, tmp_path: Path) -> None:
    """Keys would move to other partitions, where readers see them out of order."""
    writing.epoch(sold(1, 5))
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        wait_published(writing.cluster, writing.job, 1)
    more = NewPartitions(topics.output(writing.job.name), 6)
    admin = admin_client(writing.cluster)
    for done in admin.create_partitions([more]).values():
        done.result(20)
    publisher = make(writing.cluster, writing.job, tmp_path / "store")
    with pytest.raises(DivergenceError, match="partitions were added"):
        publisher.run()
