"""Begin the copy of a topic anew: what repairs every gap that the origin's log still lets be repaired.

What it does not let, a snapshot may: `cutwater.mirror.seeding` begins the same way.

The order makes it safe to die anywhere. The running mirror is fenced first. Then the positions go, all at once and
by the id that claims are written with: who claims a generation here has done so before, and this is refused or
ended, or does it later, and finds no positions. The mirror is fenced again: one that was started meanwhile may
have gone on. Then the arrivals go, since their cuts are of the copy that is given up; then the copy. Whoever finds
records without a position stops, and this is run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cutwater.adapters import replicas, wire
from cutwater.adapters.admin import delete_topics, described
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.deletion import empty
from cutwater.adapters.generations import candidates, parent_of, promoted
from cutwater.adapters.kafka import Batch, TransactionalWriter
from cutwater.adapters.streams import release
from cutwater.core import mirrored, topics
from cutwater.core.errors import FencedError, UsageError
from cutwater.core.giving_up import require_unread
from cutwater.core.mirror_seeds import generation_of
from cutwater.core.mirrored import Mirrored, Steering


def copied_topics(cluster: Cluster, job: str, region: str) -> dict[str, list[Mirrored]]:
    """What is copied of an origin: each topic's positions."""
    found: dict[str, list[Mirrored]] = {}
    for one in replicas.positions(cluster, job).copies.get(region, {}).values():
        found.setdefault(one.topic, []).append(one)
    return found


class Standing(NamedTuple):
    """What is here of the copy of one topic."""

    topic: str
    """Its name in the origin."""
    target: str
    """Its name here."""
    known: list[Mirrored]
    """The positions of its partitions."""
    exists: bool


def standing(cluster: Cluster, job: str, region: str, topic: str) -> Standing:
    """Raises UsageError for a changelog of another region: it has its own name here, and is no copy.

    And where the region is this one: then it is the original. And for a copy that a generation here stands on.
    """
    generation_of(job, topic, region)
    _require_other(cluster, job, region)
    target = mirrored.target(job, topic, region)
    _require_unread(cluster, job, target)
    known = copied_topics(cluster, job, region).get(topic, [])
    return Standing(topic, target, known, bool(described(cluster, [target])))


def _require_other(cluster: Cluster, job: str, region: str) -> None:
    """By the own commit stream, which names generations of its own region alone: a setting may be forgotten."""
    last = promoted(cluster, job) if described(cluster, [topics.milestones(job)]) else None
    if last is not None and last.generation.region == region:
        raise UsageError(
            f"{job} is at work at {cluster.bootstrap} as region {region}: what is named so is no copy. Give the "
            "region that is copied. Nothing was deleted"
        )


def _require_unread(cluster: Cluster, job: str, target: str) -> None:
    if len(described(cluster, [topics.milestones(job), topics.candidates(job)])) < 2:
        return  # nothing of the job has begun here
    last, ended = promoted(cluster, job), release(cluster, topics.milestones(job)) is not None
    number = last.generation.number if last else 0
    coming = {
        generation: parent_of(one.claim)
        for generation, one in candidates(cluster, job).by_id.items()
        if one.open and generation.number > number
    }
    require_unread(target, None if ended else last, coming)


def require_any(copy: Standing, region: str) -> None:
    """Raises UsageError where nothing of a topic is here."""
    if not copy.known and not copy.exists:
        raise UsageError(
            f"nothing of {copy.topic} is copied from {region}; 'cutwater mirror status' lists what is"
        )


def resync(
    cluster: Cluster, job: str, region: str, topic: str, say: Callable[[str], Any] = lambda _: None
) -> None:
    """Give up the copy of a topic (by its name in the origin); a mirror that is started then copies it anew.

    A mirror that runs is fenced and leaves. Raises UsageError where nothing of it is here.
    """
    copy = standing(cluster, job, region, topic)
    require_any(copy, region)
    give_up(cluster, job, region, copy, say)


def give_up(cluster: Cluster, job: str, region: str, copy: Standing, say: Callable[[str], Any]) -> None:
    """Fence the mirror, and remove positions, arrivals and the copy, as far as they are there.

    Raises UsageError where a generation stands on the copy, FencedError where a mirror is started meanwhile, or a
    generation claimed: run this again.
    """
    _fence(cluster, job, region)
    say("fenced the mirror")
    alone = TransactionalWriter(cluster, topics.claims_id(job))
    alone.initialise()
    _require_unread(cluster, job, copy.target)
    say(f"removed {_forget(alone, cluster, job, region, copy.topic)} positions")
    _fence(cluster, job, region)
    _forget(alone, cluster, job, region, copy.topic)
    empty(cluster, mirrored.arrivals(job, region))
    say("removed the arrivals, whose cuts were of this copy among others")
    if delete_topics(cluster, [copy.target]):
        say(f"deleted {copy.target}")
    if copied_topics(cluster, job, region).get(copy.topic):
        # What it says was copied is deleted: nobody may announce arrivals by it.
        _fence(cluster, job, region)
        _forget(alone, cluster, job, region, copy.topic)
        empty(cluster, mirrored.arrivals(job, region))
        raise FencedError(
            f"a mirror was started meanwhile, and began to copy {copy.topic}: end it, and run this again"
        )


def _fence(cluster: Cluster, job: str, region: str) -> None:
    for one in mirrored.transactional_ids(job, region):
        TransactionalWriter(cluster, one).initialise()


def steer(cluster: Cluster, job: str, region: str, paused: bool, now_ms: int) -> None:
    """Let every process of a mirror pause, or go on."""
    writer = TransactionalWriter(cluster, mirrored.operator_id(job, region))
    writer.initialise()
    one = Steering(job, region, paused, now_ms)
    writer.write_all([Batch(mirrored.positions(job), 0, [{"key": one.key, "value": wire.encode(one)}])])


def _forget(alone: TransactionalWriter, cluster: Cluster, job: str, region: str, topic: str) -> int:
    """Remove the positions of a topic that are there now, all or none; how many these were."""
    known = copied_topics(cluster, job, region).get(topic, [])
    if known:
        alone.write_all([Batch(mirrored.positions(job), 0, [{"key": one.key} for one in known])])
    return len(known)
