"""Records copied to partitions that nobody else writes, in order, with keys, values, headers and times.

No transaction: nobody reads the copy before it is complete, and markers would take offsets.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaException, Message, Producer

from cutwater.adapters.kafka.client import TIMEOUT_S, explain
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.copy_writer import Reports
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.topics import LISTED_BYTES_MAX

QUEUE_KB = 64 * 1024
"""The most that waits to be sent."""
_SETTINGS: dict[str, Any] = {
    "enable.idempotence": True,
    "linger.ms": 20,
    "compression.type": "lz4",
    "message.max.bytes": LISTED_BYTES_MAX,
    "queue.buffering.max.kbytes": QUEUE_KB,
    "queue.buffering.max.messages": 200_000,
    "delivery.report.only.error": True,
}


class RecordCopy:
    """The copy of one topic on another cluster, in partitions of the same numbers."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._producer: Producer = cluster.client(Producer, _SETTINGS)
        self._reports = Reports()

    def append(self, records: Sequence[Message]) -> None:
        """Write records behind those before. Raises CutwaterError if one was not taken."""
        deadline = time.monotonic() + TIMEOUT_S
        for one in records:
            while not self._offer(one):
                self._require_taken()
                if time.monotonic() > deadline:
                    raise UnavailableError(f"writing to {self._topic}: no record accepted for {TIMEOUT_S:g} s")
                self._producer.poll(0.1)
        self._producer.poll(0)
        self._require_taken()

    def finish(self) -> None:
        """Return once everything is acknowledged. Raises CutwaterError if it is not in time."""
        deadline = time.monotonic() + 3 * TIMEOUT_S
        while left := self._producer.flush(1.0):
            self._require_taken()
            if time.monotonic() > deadline:
                raise UnavailableError(f"writing to {self._topic}: {left:,} records were not acknowledged")
        self._require_taken()

    def _offer(self, one: Message) -> bool:
        try:
            self._producer.produce(
                self._topic,
                one.value(),
                one.key(),
                one.partition(),
                self._reports.hear,
                timestamp=max(0, one.timestamp()[1]),
                headers=one.headers() or [],
            )
        except BufferError:
            return False
        except KafkaException as error:
            raise explain(error, f"writing to {self._topic}") from None
        return True

    def _require_taken(self) -> None:
        if self._reports.failed is not None:
            raise explain(self._reports.failed[0], f"writing to {self._topic}")


def record_bytes(one: Message) -> int:
    """Return the bytes of a record's key and value."""
    return len(one) + len(one.key() or b"")
