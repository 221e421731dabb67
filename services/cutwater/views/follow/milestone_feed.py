"""The commit stream for readers: milestones with their bytes and offsets, and heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from confluent_kafka import KafkaError, Message

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import bounds, topic_error
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.long_lived_consumer import LongLivedConsumer
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.core.errors import DivergenceError, ProtocolError, UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Heartbeat, Milestone, Release
from cutwater.core.state.backlog import Entry, MissedMilestone
from cutwater.core.state.reader_names import CLIENT, VIEW, Reader

_PROBE_S = 1.0


class Feed(Protocol):
    """An open commit stream."""

    topic: str

    @property
    def start(self) -> int: ...

    @property
    def trouble(self) -> str: ...

    @property
    def at_end(self) -> bool: ...

    def poll(self, timeout_s: float) -> Iterator[Entry | MissedMilestone | Heartbeat]: ...

    def close(self) -> None: ...


class Stream(Protocol):
    """The commit stream that a view follows."""

    topic: str

    def open(self, cluster: Cluster, known: Entry | None) -> Feed:
        """Open the stream at the last known milestone, which is read again. Raises as `MilestoneFeed` does."""


class OwnStream:
    """The region's own commit stream."""

    def __init__(self, job: str) -> None:
        self.topic = topics.milestones(job)

    def open(self, cluster: Cluster, known: Entry | None) -> Feed:
        return MilestoneFeed(cluster, self.topic, known.offset if known else None)


class MilestoneFeed:
    """Reader of `<job>.milestones` from an offset, or from its start."""

    def __init__(self, cluster: Cluster, topic: str, first: int | None, reader: Reader = VIEW) -> None:
        """`first`: the offset to continue from. Raises DivergenceError if the stream ends at or below it."""
        self.topic = topic
        self.trouble = ""
        """The broker's last error; empty if it answers."""
        # A user's program may pause at a milestone; the services poll all the time.
        quiet = QUIET if reader is CLIENT else {}
        # Without this callback a consumer does not report that its brokers are away.
        self._read = LongLivedConsumer(cluster, topic, error_cb=self._on_error, **quiet)
        try:
            low, high = bounds(self._read.consumer, topic, 0)
            if first is not None and first >= high:
                raise DivergenceError(
                    f"{topic} ends at offset {high}, but {reader.name} has read {first}: the topic was recreated "
                    f"or truncated. Find out why; then {reader.anew}."
                )
            self.start = low if first is None else max(first, low)
            """The first offset read; above `first` if the stream was pruned past it."""
            self._read.begin({0: self.start})
        except BaseException:
            self._read.close()
            raise

    @property
    def at_end(self) -> bool:
        """Whether the end of the stream, as of some moment, has been read."""
        return self._read.at_end

    def close(self) -> None:
        self._read.close()

    def poll(self, timeout_s: float) -> Iterator[Entry | Heartbeat]:
        """Yield new records, at most a thousand. Waits up to `timeout_s` for the first."""
        if self.trouble:
            self._probe()
        for message in self._read.read(timeout_s):
            record = self._record(message)
            if not isinstance(record, Release):  # readers show the last milestone before a release
                yield record

    def _on_error(self, error: KafkaError) -> None:
        self.trouble = error.str()

    def _probe(self) -> None:
        """Query the broker, since an idle stream does not show that the broker is back."""
        if topic_error(self._read.consumer, self.topic, _PROBE_S) is None:
            self.trouble = ""

    def _record(self, message: Message) -> Entry | Heartbeat | Release:
        value = bytes(message.value() or b"")
        place = f"{self.topic}@{message.offset()}"
        try:
            record = protocol_records.decode(value)
        except UsageError as error:
            raise ProtocolError(f"{place}: {error}") from None
        if isinstance(record, Milestone):
            return Entry(record, value, message.offset())
        if isinstance(record, Heartbeat | Release):
            return record
        raise ProtocolError(f"{place}: a {type(record).__name__} does not belong on the commit stream")
