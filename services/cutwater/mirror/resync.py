"""Begin the copy of a topic anew: what repairs every gap that the origin's log still lets be repaired.

What it does not let, a snapshot may: `cutwater.mirror.seeding` begins the same way.

The order makes it safe to die anywhere: the running mirror is fenced first; then arrivals go, since their cuts are
of the copy that is given up; then the positions; then the copy. Whoever finds records without a position stops,
and this is run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cutwater.adapters import replicas, wire
from cutwater.adapters.admin import delete_topics, described
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.deletion import empty
from cutwater.adapters.kafka import Batch, TransactionalWriter
from cutwater.core import mirrored
from cutwater.core.cuts import TopicPartition
from cutwater.core.errors import UsageError
from cutwater.core.mirror_seeds import generation_of
from cutwater.core.mirrored import Mirrored, Steering, slot_of


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
    """Raises UsageError for a changelog of another region: it has its own name here, and is no copy."""
    generation_of(job, topic, region)
    target = mirrored.target(job, topic, region)
    known = copied_topics(cluster, job, region).get(topic, [])
    return Standing(topic, target, known, bool(described(cluster, [target])))


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
    """Fence the mirror, and remove arrivals, positions and the copy, as far as they are there."""
    for one in mirrored.transactional_ids(job, region):
        TransactionalWriter(cluster, one).initialise()
    say("fenced the mirror")
    empty(cluster, mirrored.arrivals(job, region))
    say("removed the arrivals, whose cuts were of this copy among others")
    for position in copy.known:
        _forget(cluster, job, region, position)
    say(f"removed {len(copy.known)} positions")
    if copy.exists:
        delete_topics(cluster, [copy.target])
        say(f"deleted {copy.target}")


def steer(cluster: Cluster, job: str, region: str, paused: bool, now_ms: int) -> None:
    """Let every process of a mirror pause, or go on."""
    writer = TransactionalWriter(cluster, mirrored.operator_id(job, region))
    writer.initialise()
    one = Steering(job, region, paused, now_ms)
    writer.write_all([Batch(mirrored.positions(job), 0, [{"key": one.key, "value": wire.encode(one)}])])


def _forget(cluster: Cluster, job: str, region: str, position: Mirrored) -> None:
    place = TopicPartition(position.topic, position.partition)
    writer = TransactionalWriter(cluster, mirrored.slot_id(job, region, slot_of(*place)))
    writer.initialise()
    writer.write_all([Batch(mirrored.positions(job), 0, [{"key": position.key}])])
