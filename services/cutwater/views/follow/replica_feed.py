"""The commit stream of another region for a replica's view, from its copy and the arrivals in this region."""

from __future__ import annotations

from collections.abc import Iterator

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import bounds
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.long_lived_consumer import LongLivedConsumer
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.core.errors import DivergenceError, ProtocolError, UsageError
from cutwater.core.mirror.replica_stream import ReplicaStream
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.mirror_records import Arrival
from cutwater.core.protocol.records import Heartbeat
from cutwater.core.state.backlog import Entry, MissedMilestone
from cutwater.views.follow.milestone_feed import Feed, MilestoneFeed


class CopiedStream:
    """Implements `views.follow.milestone_feed.Stream`. One per view, since it keeps the last arrival read."""

    def __init__(self, job: str, origin: str) -> None:
        self.topic = mirror_records.milestones_from(job, origin)
        self.arrivals = mirror_records.arrivals(job, origin)
        self._read: int | None = None

    def open(self, cluster: Cluster, known: Entry | None) -> Feed:
        if known is not None and known.arrived is not None:
            self.read_to(known.arrived)
        return CopiedFeed(cluster, self, known)

    def read_to(self, offset: int) -> None:
        """Record that the arrival at this offset was read."""
        self._read = max(offset, self._read or 0)

    def require_same_copy(self, low: int) -> None:
        """Raise DivergenceError if the arrivals that this view has read are gone. `low`: the first offset of
        the arrivals, queried after the newest of them was read. Offsets of the previous copy do not apply to
        this one, so rows would be left out."""
        if self._read is not None and low > self._read:
            raise DivergenceError(
                f"{self.arrivals} was emptied after the view read it: 'cutwater mirror resync' started the copy "
                "again. Delete the view's folder to rebuild it from the new copy"
            )


class CopiedFeed:
    """Implements `views.follow.milestone_feed.Feed`."""

    def __init__(self, cluster: Cluster, stream: CopiedStream, known: Entry | None) -> None:
        self.topic = stream.topic
        self._stream = stream
        self._landing = ReplicaStream()
        self._arrivals = LongLivedConsumer(cluster, stream.arrivals, **QUIET)
        try:
            low, _ = bounds(self._arrivals.consumer, stream.arrivals, 0)
            stream.require_same_copy(low)
            first = low if known is None or known.arrived is None else known.arrived
            self._arrivals.begin({0: first})
            self._milestones = MilestoneFeed(cluster, stream.topic, known.offset if known else None)
        except BaseException:
            self._arrivals.close()
            raise

    def close(self) -> None:
        self._arrivals.close()
        self._milestones.close()

    @property
    def start(self) -> int:
        return self._milestones.start

    @property
    def trouble(self) -> str:
        return self._milestones.trouble

    @property
    def at_end(self) -> bool:
        """Whether every arrival has been read, as of some moment, with its milestone. Milestones that wait for an
        arrival are not read to their end: there may be any number of them."""
        return self._arrivals.at_end and self._landing.even

    def poll(self, timeout_s: float) -> Iterator[Entry | MissedMilestone | Heartbeat]:
        """Yield new records, or wait up to `timeout_s` for some. Raises as `MilestoneFeed.poll` does."""
        landing = self._landing
        waits = landing.waits
        if landing.wants_arrivals:
            self._read_arrivals(timeout_s if waits else 0.0)
        for record in self._milestones.poll(0.0 if waits else timeout_s) if landing.wants_milestones else ():
            if isinstance(record, Heartbeat):
                yield record
            else:
                landing.milestone(record)
        yield from landing.ready()

    def _read_arrivals(self, timeout_s: float) -> None:
        found = [
            (message.offset() or 0, self._arrival(bytes(message.value() or b"")))
            for message in self._arrivals.read(timeout_s)
        ]
        if not found:
            return
        self._stream.require_same_copy(bounds(self._arrivals.consumer, self._stream.arrivals, 0)[0])
        self._stream.read_to(found[-1][0])
        for offset, arrival in found:
            self._landing.arrival(offset, arrival)

    def _arrival(self, value: bytes) -> Arrival:
        try:
            record = protocol_records.decode(value)
        except UsageError as error:
            raise ProtocolError(f"{self._stream.arrivals}: {error}") from None
        if not isinstance(record, Arrival):
            raise ProtocolError(
                f"{self._stream.arrivals}: a {type(record).__name__} does not belong among the arrivals"
            )
        return record
