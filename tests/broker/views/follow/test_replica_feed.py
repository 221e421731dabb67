"""A view of another region's copies: at each arrival it shows what the origin had there, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka import long_lived_consumer
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.mirror import replica_stream
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.mirror.resync.resync import resync
from cutwater.views.follow.replica_feed import CopiedStream
from support.regions.mirroring import ORIGIN, arrivals, mirroring, wait_arrived
from support.views.changelogs import HOUR_MS, Sold, Writing, following, make_job, now_ms, until
from support.views.rehydrating import running


@pytest.fixture
def writing(origin: Cluster, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(origin, make_job(tmp_path)[0])
    yield made
    made.close()


def sold(hour: int, amount: int, shops: int = 40) -> list[Sold]:
    return [Sold(f"shop-{number}", hour, amount + number) for number in range(shops)]


def copied(broker: Any, writing: Writing, folder: Path, **options: Any) -> Any:
    stream = CopiedStream(writing.job.name, ORIGIN)
    return following(broker.cluster, writing.job, folder, stream=stream, **options)


def test_it_shows_each_arrival_as_the_origin_had_it(broker: Any, writing: Writing, tmp_path: Path) -> None:
    """Rows of the copies between local cuts, proved by the origin's counts and digests; a restart goes on."""
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        for number in range(3):
            writing.epoch(sold(number // 2, 100 * number))
        wait_arrived(mirror, broker.cluster, writing.job, 3)
        with copied(broker, writing, tmp_path / "view") as view:
            view.wait_for(3)
            assert view.rows() == (3, writing.by_sequence[3])
            for number in range(4, 7):
                writing.epoch(sold(number, number, shops=number) if number != 5 else [])
                view.wait_for(number)
                assert view.rows() == (number, writing.by_sequence[number])
            records = sum(done.records for _, done in view.seen.done)
        writing.epoch(sold(9, 1, shops=3))
        wait_arrived(mirror, broker.cluster, writing.job, 7)
        with copied(broker, writing, tmp_path / "view") as view:
            assert view.first_shown.sequence == 6, "what it showed, it shows at once"
            view.wait_for(7)
            assert view.rows() == (7, writing.by_sequence[7])
            assert [milestone.sequence for milestone, _ in view.seen.done] == [7], "from where it was"
            assert view.seen.done[0][1].records == 3 < records


def test_nothing_is_shown_before_it_has_arrived(broker: Any, writing: Writing, tmp_path: Path) -> None:
    """A milestone that is copied is not shown while its values are not all here."""
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        writing.epoch(sold(1, 1))
        wait_arrived(mirror, broker.cluster, writing.job, 1)
        with copied(broker, writing, tmp_path / "view") as view:
            view.wait_for(1)
            ends = writing.ends()
            writing.milestone([], [], changelog_cut=_beyond(writing, ends))  # names records that are not there yet
            mirror.until(lambda: mirror.mirror.arriving.ledger.newest.sequence == 2, "the milestone's copy")
            writing.rows(sold(2, 2, shops=2), epoch=7)
            assert view.view.milestone.sequence == 1
    assert [one.sequence for one in arrivals(broker.cluster, writing.job)] == [1]


def _beyond(writing: Writing, ends: dict[int, int]) -> Cut:
    return Cut.of({TopicPartition(writing.topic, number): end + 100 for number, end in ends.items()})


@pytest.mark.slow
def test_a_new_view_waits_for_no_milestone_that_has_not_arrived(
    broker: Any, writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are copied behind the newest arrival: it shows that one, also if it is built only then."""
    monkeypatch.setattr(replica_stream, "HELD", 5)
    monkeypatch.setattr(long_lived_consumer, "_BATCH", 5)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        writing.epoch(sold(1, 1))
        wait_arrived(mirror, broker.cluster, writing.job, 1)
        beyond = _beyond(writing, writing.ends())
        for _ in range(30):
            writing.milestone([], [], changelog_cut=beyond)
        mirror.until(lambda: mirror.mirror.arriving.ledger.newest.sequence == 31, "the milestones' copies")
    with copied(broker, writing, tmp_path / "view") as view:
        view.wait_for(1)
        assert view.rows() == (1, writing.by_sequence[1])


@pytest.mark.slow
def test_past_milestones_that_never_arrived_it_jumps(broker: Any, writing: Writing, tmp_path: Path) -> None:
    """A mirror that was away too long announces the newest only: the view goes there from where it was, whole."""
    with copied_after(broker, writing, tmp_path, 2) as view:
        for number in range(3):
            writing.epoch(sold(1, 1_000 * number, shops=30 + number))
        with mirroring(broker.cluster, writing.cluster, writing.job, lambda: now_ms() + 48 * HOUR_MS) as late:
            wait_arrived(late, broker.cluster, writing.job, 5)
            view.wait_for(5)
            assert view.rows() == (5, writing.by_sequence[5])
        assert [one.sequence for one in arrivals(broker.cluster, writing.job)] == [1, 2, 5]
        with mirroring(broker.cluster, writing.cluster, writing.job):
            writing.epoch(sold(3, 3))
            view.wait_for(6)
            assert view.rows() == (6, writing.by_sequence[6])
        assert [milestone.sequence for milestone, _ in view.seen.done][-2:] == [5, 6]


def copied_after(broker: Any, writing: Writing, tmp_path: Path, epochs: int) -> Any:
    """A view of so many milestones, whose mirror has ended."""
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        for number in range(epochs):
            writing.epoch(sold(number, 100 * number))
            wait_arrived(mirror, broker.cluster, writing.job, number + 1)
    return copied(broker, writing, tmp_path / "view")


@pytest.mark.slow
@pytest.mark.parametrize("running_on", [True, False], ids=["while it runs", "while it is away"])
def test_a_copy_that_was_begun_anew_is_not_taken_for_the_old_one(
    broker: Any, writing: Writing, tmp_path: Path, running_on: bool
) -> None:
    """Its offsets say nothing of the new one: the view stops and says so; from nothing it is rebuilt."""
    topic = writing.topic

    def anew() -> None:
        resync(broker.cluster, writing.job.name, ORIGIN, topic, now_ms)

    with copied_after(broker, writing, tmp_path, 2) as view:
        view.wait_for(2)
        if running_on:
            anew()
            with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
                writing.epoch(sold(3, 1, shops=4))
                mirror.until(lambda: len(arrivals(broker.cluster, writing.job)), "an arrival of the new copy")
                reason = view.wait_stopped()
            assert view.rows() == (2, writing.by_sequence[2])
    if not running_on:
        anew()
        with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
            writing.epoch(sold(3, 1, shops=4))
            wait_arrived(mirror, broker.cluster, writing.job, 3)
            with copied(broker, writing, tmp_path / "view") as view:
                reason = view.wait_stopped()
    assert "resync" in reason
    with copied(broker, writing, tmp_path / "another") as view:
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])


@pytest.mark.slow
def test_the_process_serves_the_other_region_and_follows_its_promotions(
    broker: Any, origin: Cluster, tmp_path: Path
) -> None:
    """The ordinary API with the origin's tokens, marked as a replica; a next generation there is shown, too."""
    job, path = make_job(tmp_path)
    writing = Writing(origin, job)
    env = {"CUTWATER_REGION": "there", "CUTWATER_REPLICA_OF": ORIGIN}
    with running(broker.cluster, path, tmp_path / "early", **env) as early:
        code, line = early.ended()
    assert (code, "start its mirror first" in line) == (4, True), line
    with mirroring(broker.cluster, origin, job) as mirror:
        first = writing.epoch(sold(1, 5))
        wait_arrived(mirror, broker.cluster, job, 1)
        with running(broker.cluster, path, tmp_path / "replica", **env) as replica:
            until(lambda: replica.answers() and replica.shown() == 1, "the arrival")
            answer = replica.get("/v1/state/shop-7").json()
            assert [row["pieces"] for row in answer["rows"]] == [12]
            assert (answer["milestone"]["token"], answer["milestone"]["origin"]) == (str(first.token), ORIGIN)
            health = replica.get("/readyz").json()
            assert (health["role"], health["milestone"]["origin"]) == ("replica", ORIGIN)
            assert replica.post("/v1/snapshots").status_code == 409
            promoted = writing.promote(5, sold(2, 7))
            answer = replica.get("/v1/state/shop-7", at_least=str(promoted.token), wait_ms=30_000).json()
            assert [row["pieces"] for row in answer["rows"]] == [12, 14]
            assert answer["milestone"]["token"] == str(promoted.token)
    assert (tmp_path / "replica" / "replicas" / ORIGIN / "views" / job.name).is_dir()
    assert not (tmp_path / "replica" / "views").exists()
    writing.close()


def test_a_region_is_no_replica_of_itself(broker: Any, tmp_path: Path) -> None:
    """It would wait for arrivals that nobody writes."""
    _, path = make_job(tmp_path)
    env = {"CUTWATER_REGION": "there", "CUTWATER_REPLICA_OF": "there"}
    with running(broker.cluster, path, tmp_path / "replica", **env) as replica:
        assert replica.ended()[0] == 2
