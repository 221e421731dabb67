"""A copy is given up while somebody else begins: a mirror, or a generation that would stand on it."""

from __future__ import annotations

from typing import Any

import pytest
from changelogs import Writing, until
from mirroring import ORIGIN, Events, Running, arrivals, epoch, make, mirroring, require_held, wait_arrived

from cutwater.adapters.admin import ensure_topics
from cutwater.adapters.failing_over import FailingOver
from cutwater.adapters.process import now_ms
from cutwater.core import mirrored
from cutwater.core.errors import FencedError, UnavailableError, UsageError
from cutwater.core.replication import UNREPLICATED
from cutwater.mirror.resync import copied_topics, give_up, resync, standing


def failing_over(broker: Any, writing: Writing) -> FailingOver:
    """Ready to claim in this region."""
    one = FailingOver(broker.cluster, writing.job, "there", ORIGIN, now_ms)
    one.prepare(UNREPLICATED)
    return one


def test_what_a_mirror_announces_meanwhile_goes_too(broker: Any, writing: Writing, events: Events) -> None:
    """Started between two steps, it finds the old positions and announces by them: nothing of that stays."""
    own, job, begun = broker.cluster, writing.job, list[Running]()
    with mirroring(own, writing.cluster, job) as mirror:
        wait_arrived(mirror, own, job, epoch(writing, events, 1))

    def meanwhile(step: str) -> None:
        if step == "fenced the mirror":
            begun.append(Running(make(own, writing.cluster, job)))
            wait_arrived(begun[0], own, job, epoch(writing, events, 2))

    try:
        resync(own, job.name, ORIGIN, events.topic, meanwhile)
        assert arrivals(own, job) == []
        epoch(writing, events, 3)
        until(lambda: begun[0].error is not None, "the mirror to find that it is fenced")
    finally:
        with pytest.raises(FencedError):
            begun[0].end()
    with mirroring(own, writing.cluster, job) as mirror:
        require_held(writing, own, wait_arrived(mirror, own, job, 3))


def test_positions_that_a_mirror_wrote_a_moment_ago_go_too(broker: Any, writing: Writing, events: Events) -> None:
    """When somebody looked there was no copy yet: what has come since is found behind the fencing."""
    own, job = broker.cluster, writing.job
    ensure_topics(own, mirrored.owned(job.name, ORIGIN))
    copy = standing(own, job.name, ORIGIN, events.topic)
    assert (copy.known, copy.exists) == ([], False)
    with mirroring(own, writing.cluster, job) as mirror:
        wait_arrived(mirror, own, job, epoch(writing, events, 1))
    give_up(own, job.name, ORIGIN, copy, lambda _: None)
    assert events.topic not in copied_topics(own, job.name, ORIGIN)
    with mirroring(own, writing.cluster, job) as mirror:
        require_held(writing, own, wait_arrived(mirror, own, job, 1))


def test_no_generation_begins_in_a_copy_that_is_given_up(broker: Any, writing: Writing, events: Events) -> None:
    """Whoever has read the arrival before finds no positions, and then no arrival."""
    own, job = broker.cluster, writing.job
    with mirroring(own, writing.cluster, job) as mirror:
        wait_arrived(mirror, own, job, epoch(writing, events, 1))
    going_on = failing_over(broker, writing)
    found, met = going_on.look(), []

    def meanwhile(step: str) -> None:
        if step.startswith("removed") and step.endswith("positions"):
            with pytest.raises(UsageError, match="somebody has begun to give the copy up"):
                going_on.claim(found, UNREPLICATED)
            met.append(step)

    resync(own, job.name, ORIGIN, events.topic, meanwhile)
    assert met == [f"removed {job.shards.partitions} positions"]
    with pytest.raises(UnavailableError, match="is gone"):
        going_on.claim(found, UNREPLICATED)
    assert not going_on.claims.known().by_id


def test_a_copy_that_a_generation_begins_in_stays(broker: Any, writing: Writing, events: Events) -> None:
    """Its events and its parent's rows; once it was given up, the copy may go."""
    own, job = broker.cluster, writing.job
    with mirroring(own, writing.cluster, job) as mirror:
        found = wait_arrived(mirror, own, job, epoch(writing, events, 1))
    going_on = failing_over(broker, writing)
    claim = going_on.claim(going_on.look(), UNREPLICATED)
    for topic in (events.topic, writing.topic):
        with pytest.raises(UsageError, match=f"{claim.generation} was claimed here"):
            resync(own, job.name, ORIGIN, topic)
    assert arrivals(own, job) == [found]
    going_on.claims.abort(claim.generation, "a test")
    resync(own, job.name, ORIGIN, writing.topic)
    assert arrivals(own, job) == []
