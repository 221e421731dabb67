"""Contents of a mirror's own topics: positions, arrivals and copied milestones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import DivergenceError
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.mirror_records import (
    Arrival,
    Mirrored,
    Renewal,
    Steering,
    parse_position_key,
    parse_renewal_key,
)
from cutwater.core.protocol.records import Milestone, Release

_LOOK_S = 0.1


class Positions:
    """A fold over the positions topic: the newest of each partition, by origin, and operators' commands."""

    def __init__(self) -> None:
        self.copies: dict[str, dict[TopicPartition, Mirrored]] = {}
        self.steering: dict[str, Steering] = {}
        self._renewals: dict[str, dict[str, int]] = {}

    @property
    def every(self) -> list[Mirrored]:
        return [one for places in self.copies.values() for one in places.values()]

    def renewed(self, origin: str) -> Mapping[str, int]:
        """Return topics of an origin with a resync in progress or interrupted, and its start (ms)."""
        return self._renewals.get(origin, {})

    def take(self, key: bytes, value: bytes | None) -> Mirrored | Steering | Renewal | None:
        """Apply the next record of the topic; return None if it removes something."""
        if not value:
            self._take_away(key)
            return None
        one = protocol_records.decode(value)
        if isinstance(one, Mirrored):
            self.copies.setdefault(one.origin, {})[TopicPartition(one.topic, one.partition)] = one
            return one
        if isinstance(one, Steering):
            self.steering[one.origin] = one
            return one
        if isinstance(one, Renewal):
            self._renewals.setdefault(one.origin, {})[one.topic] = one.at_ms
            return one
        return None

    def _take_away(self, key: bytes) -> None:
        if (ended := parse_renewal_key(key)) is not None:
            self._renewals.get(ended[0], {}).pop(ended[1], None)
            return
        origin, place = parse_position_key(key)
        self.copies.get(origin, {}).pop(place, None)


def read_records(
    cluster: Cluster, job: str, patience_s: float | None = None
) -> Iterator[tuple[bytes, bytes | None]]:
    """Return key and value of everything on the positions topic.

    Waits for an open transaction to end. A mirror without its brokers holds one up to Kafka's transaction
    time-out. `patience_s`: the maximum wait, after which the records hidden by the transaction are left out.
    """
    topic, consumer = mirror_records.positions(job), make_consumer(cluster)
    try:
        low, seen = bounds(consumer, topic, 0)
        # Read beyond the last stable offset: another slot's open transaction hides the records after it.
        high = Offsets(cluster).topic_ends(topic, 1)[0]
        until_s = None if patience_s is None else time.monotonic() + patience_s
        while until_s is not None and seen < high:
            if time.monotonic() >= until_s:
                high = seen
                break
            time.sleep(_LOOK_S)
            _, seen = bounds(consumer, topic, 0)
        for message in read_range(consumer, topic, 0, low, high) if low < high else ():
            yield bytes(message.key() or b""), message.value()
    finally:
        consumer.close()


def positions(cluster: Cluster, job: str, patience_s: float | None = None) -> Positions:
    """Return the present positions; `patience_s` as in `records`."""
    found = Positions()
    for key, value in read_records(cluster, job, patience_s):
        found.take(key, value)
    return found


def has_mirror(cluster: Cluster, job: str, origin: str = "") -> bool:
    """Return whether a mirror has run here: of this origin, or of any by default."""
    topic = mirror_records.arrivals(job, origin) if origin else mirror_records.positions(job)
    return topic in descriptions(cluster, [topic])


def last_arrival(cluster: Cluster, job: str, origin: str) -> Arrival | None:
    topic = mirror_records.arrivals(job, origin)
    return commit_stream.newest(cluster, topic, lambda one: one if isinstance(one, Arrival) else None)


def arrived_milestone(cluster: Cluster, arrival: Arrival) -> bytes:
    """Return the arrived milestone as its region wrote it. Raises DivergenceError if it is missing."""
    topic = mirror_records.milestones_from(arrival.job, arrival.origin)
    value = next(commit_stream.values(cluster, topic, arrival.stream_offset), b"")
    if link(value) != arrival.milestone_hash:
        raise DivergenceError(
            f"{topic}@{arrival.stream_offset} is not milestone {arrival.token}, whose arrival was announced: the "
            f"copy was replaced. Run 'cutwater mirror resync', only while {arrival.origin} is up"
        )
    return value


def last_heard_ms(cluster: Cluster, job: str, origin: str) -> int:
    """Return when the newest copied milestone or heartbeat was written, by the origin's clock; 0 for none."""
    return commit_stream.last_heard_ms(cluster, mirror_records.milestones_from(job, origin))


def last_release(cluster: Cluster, job: str, origin: str) -> Release | None:
    return commit_stream.release(cluster, mirror_records.milestones_from(job, origin))


def newest_milestone(cluster: Cluster, job: str, origin: str) -> Milestone | None:
    topic = mirror_records.milestones_from(job, origin)
    return commit_stream.newest(cluster, topic, lambda one: one if isinstance(one, Milestone) else None)
