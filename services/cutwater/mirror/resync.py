"""Begin the copy of a topic anew: what repairs every gap that the origin's log still lets be repaired.

The order makes it safe to die anywhere: the running mirror is fenced first; then arrivals go, since their cuts are
of the copy that is given up; then the positions; then the copy. Whoever finds records without a position stops,
and this is run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.adapters import replicas, wire
from cutwater.adapters.admin import delete_topics, described
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.deletion import empty
from cutwater.adapters.kafka import Batch, TransactionalWriter
from cutwater.core import mirrored
from cutwater.core.cuts import TopicPartition
from cutwater.core.errors import UsageError
from cutwater.core.mirrored import Mirrored, Steering, slot_of


def copied_topics(cluster: Cluster, job: str, region: str) -> dict[str, list[Mirrored]]:
    """What is copied of an origin: each topic's positions."""
    found: dict[str, list[Mirrored]] = {}
    for one in replicas.positions(cluster, job).copies.get(region, {}).values():
        found.setdefault(one.topic, []).append(one)
    return found


def resync(
    cluster: Cluster, job: str, region: str, topic: str, say: Callable[[str], Any] = lambda _: None
) -> None:
    """Give up the copy of a topic (by its name in the origin); a mirror that is started then copies it anew.

    A mirror that runs is fenced and leaves. Raises UsageError where nothing of it is here.
    """
    target = mirrored.target(job, topic, region)
    known = copied_topics(cluster, job, region).get(topic, [])
    exists = bool(described(cluster, [target]))
    if not known and not exists:
        raise UsageError(f"nothing of {topic} is copied from {region}; 'cutwater mirror status' lists what is")
    for one in mirrored.transactional_ids(job, region):
        TransactionalWriter(cluster, one).initialise()
    say("fenced the mirror")
    empty(cluster, mirrored.arrivals(job, region))
    say("removed the arrivals, whose cuts were of this copy among others")
    for position in known:
        _forget(cluster, job, region, position)
    say(f"removed {len(known)} positions")
    if exists:
        delete_topics(cluster, [target])
        say(f"deleted {target}")


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
