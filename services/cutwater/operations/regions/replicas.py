"""The replicas in this region: what has arrived from each origin, and how far its copies are behind."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import mirror_topics
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.mirror.replica_lag import Pace, SafeTime, awaited, safe_time
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.mirror_records import Mirrored, Steering

ASK_S = 3.0
"""Timeout of queries to the origin, which may be down."""

Note = Callable[[str], None]


def replicas_of(
    settings: Settings, cluster: Cluster, job: str, note: Note
) -> list[tuple[SafeTime, Steering | None]]:
    """Return each origin that is copied here, with the operator's pause or resume. `note`: takes the reason why an
    origin is not queried."""
    return replicas_with_positions(settings, cluster, job, note)[0]


def replicas_with_positions(
    settings: Settings, cluster: Cluster, job: str, note: Note
) -> tuple[list[tuple[SafeTime, Steering | None]], mirror_topics.Positions]:
    """Return the same with the positions of all copies."""
    found, paces = mirror_topics.Positions(), dict[str, Pace]()
    if not mirror_topics.has_mirror(cluster, job):
        return [], found
    for key, value in mirror_topics.read_records(cluster, job):
        one = found.take(key, value)
        if isinstance(one, Mirrored):
            paces.setdefault(one.origin, Pace()).take(one)
    now, told = now_ms(), []
    for origin, every in sorted(found.copies.items()):
        arrived = mirror_topics.last_arrival(cluster, job, origin)
        copies = awaited(every.values(), arrived)
        safe = safe_time(
            origin,
            copies,
            arrived,
            mirror_topics.newest_milestone(cluster, job, origin),
            _ends(settings, origin, [TopicPartition(one.topic, one.partition) for one in copies], note),
            paces[origin].per_second(now),
            now,
        )
        told.append((safe, found.steering.get(origin)))
    return told, found


def _ends(
    settings: Settings, origin: str, places: list[TopicPartition], note: Note
) -> dict[TopicPartition, int] | None:
    if origin != settings.origin_region or not settings.origin_bootstrap_servers:
        return None
    try:
        there = settings.origin_cluster
        wait_for_broker(there, ASK_S)
    except UsageError as error:
        note(f"{origin} is not queried: {error}")
        return None
    except UnavailableError:
        return None
    try:
        return Offsets(there, ASK_S).written_ends(places)
    except CutwaterError:
        return None
