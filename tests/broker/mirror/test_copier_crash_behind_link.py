"""What dies while a job is copied over a long way: the mirror at each of its points, and the way itself."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.cli.regions.test_mirror_verbs import call
from cutwater.adapters.fetch import partition_cursor
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.candidates import candidates, origin_parent
from cutwater.core.errors import FencedError
from cutwater.core.job.job import Job
from cutwater.core.protocol import mirror_records
from cutwater.local.link import Link
from cutwater.mirror import copier
from support.kafka.links import Linked
from support.regions.loaded_origin import loaded, require_copied
from support.regions.mirroring import (
    ORIGIN,
    Events,
    Running,
    arrivals,
    make,
    mirroring,
    process,
    read_all,
    require_held,
)
from support.views.changelogs import Sold, Writing, make_job, until

pytestmark = pytest.mark.slow

DELAY_S = 0.08
POINTS = ("copy-read@3", "copy-written@3", "transaction-open@4", "arrival-due@2", "arrival-written@2")


@pytest.fixture
def writing(linked: Linked, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(linked.near, make_job(tmp_path)[0])
    yield made
    made.close()


def test_killed_at_each_point_over_a_long_way(
    broker: Any, linked: Linked, link: Link, writing: Writing, tmp_path: Path
) -> None:
    """80 ms in each direction, and events and milestones all the time: the copy is exact all the same."""
    job, own, log = writing.job, broker.cluster, tmp_path / "log"
    link.delay_s = DELAY_S
    with loaded(writing, Events(writing)) as load:
        for point in POINTS:
            mark, delayed, at = tmp_path / point, link.delayed_bytes, load.sequence
            crash = {"CUTWATER_CRASH_POINT": point, "CUTWATER_CRASH_MARK": str(mark)}
            dying = process(own, linked.far, tmp_path / f"{job.name}.yaml", log, **crash)
            try:
                until(
                    lambda dying=dying: dying.poll() is not None, lambda point=point: f"{point}; {log.read_text()}"
                )
            finally:
                dying.kill()
            assert mark.exists(), f"{point} was not reached: {log.read_text()}"
            assert dying.returncode == -signal.SIGKILL
            assert link.delayed_bytes > delayed
            assert load.sequence > at
        with mirroring(own, linked.far, job) as mirror:
            at = load.sequence
            mirror.until(lambda: load.sequence > at + 10, "milestones while it catches up")
            last = load.end()
            mirror.until(lambda: arrivals(own, job)[-1].sequence == last, "everything to arrive")
    require_copied(writing, own)


PARTS, SHOPS = 20, 150
SLOW = 20_000
"""Bytes a second that the mirror copies: it must not keep up with a test that writes on a busy machine."""


@contextmanager
def fenced(one: Running) -> Iterator[Running]:
    """A mirror that must end with FencedError."""
    try:
        yield one
    finally:
        with pytest.raises(FencedError):
            one.end()


def test_cut_off_in_the_middle_of_a_milestone(
    broker: Any, linked: Linked, link: Link, writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A milestone is heard of, and some of its rows are here: the failover goes on from the one before it."""
    monkeypatch.setattr(copier, "RECORDS", 400)
    monkeypatch.setattr(partition_cursor, "PIECE", 100)
    job, own, events = writing.job, broker.cluster, Events(writing)
    events.produce(30)
    first = [Sold(f"shop-{one}", 1, 7) for one in range(30)]
    writing.epoch(first, source_cut=events.cut())
    with fenced(Running(make(own, linked.far, job, bytes_per_s=SLOW))) as mirror:
        mirror.until(lambda: (found := list_of(own, job)) and found[-1] == 1, "the first milestone to arrive")
        link.delay_s = DELAY_S
        large(writing, events)
        mirror.until(lambda: heard(own, job) == 2, "the second milestone to be heard of")
        link.refuses = True
        link.cut()
        told = fail_over(own, linked, tmp_path / f"{job.name}.yaml")
        copied = held(own, writing)
        assert 30 < copied["rows"] < 30 + PARTS * SHOPS, "the milestone was to be cut in the middle"
        link.mend()
        until(lambda: mirror.error is not None, "the mirror to find that it is fenced")
    assert held(own, writing) == copied, "what had arrived was final"
    assert told["parent"] == f"{writing.generation}:1"
    assert told["loss"]["newest"] == f"{writing.generation}:2"
    assert told["loss"]["milestones"] == 1
    assert told["loss"]["offsets"] == 30 + PARTS * SHOPS - copied["events"] > 0
    (arrival,) = arrivals(own, job)
    (candidate,) = candidates(own, job.name).by_id.values()
    claim = candidate.claim
    assert origin_parent(claim).sequence == arrival.sequence == 1
    assert claim.changelog_cut == arrival.changelog_cut
    require_held(writing, own, arrival)


def large(writing: Writing, events: Events) -> None:
    """A milestone of many small batches."""
    rows = [[Sold(f"shop-{part}-{one}", 2, part) for one in range(SHOPS)] for part in range(PARTS)]
    written = []
    for part in rows:
        events.produce(SHOPS)
        written += writing.rows(part, 1)
    writing.milestone([one for part in rows for one in part], written, source_cut=events.cut())


def list_of(own: Cluster, job: Job) -> list[int]:
    """The sequences that have arrived."""
    return [one.sequence for one in arrivals(own, job)] if mirror_topics.has_mirror(own, job.name) else []


def heard(own: Cluster, job: Job) -> int:
    newest = mirror_topics.newest_milestone(own, job.name, ORIGIN)
    return newest.sequence if newest else 0


def held(own: Cluster, writing: Writing) -> dict[str, int]:
    """How many records are copied."""
    places = {"rows": writing.topic, "events": mirror_records.from_origin(writing.job.topic, ORIGIN)}
    partitions = range(writing.job.shards.partitions)
    return {name: sum(len(read_all(own, topic, at)) for at in partitions) for name, topic in places.items()}


def fail_over(own: Cluster, linked: Linked, job_file: Path) -> Any:
    done = call(own, linked.far, "failover", str(job_file), "--force", "--wait", "0", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
