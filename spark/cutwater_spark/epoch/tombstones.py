"""Acknowledged tombstones on the changelog. `core.driver.tombstone_gc` decides which."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaException, Producer

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer

FLUSH_S = 30.0


class Tombstones:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        # No transaction: its markers would take offsets, which the proof of rows counts.
        settings = {"enable.idempotence": True, "acks": "all", "compression.type": "lz4", **QUIET}
        self._producer: Producer = cluster.client(Producer, settings)

    def write(self, partition: int, keys: Sequence[bytes], me: Writer) -> None:
        """Write one for each key. Raise UnavailableError if one is not acknowledged; it may be written anyway."""
        failures: list[str] = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failures.append(str(error))

        headers = [(WRITER_HEADER, me.header)]
        try:
            for key in keys:
                self._producer.produce(self._topic, None, key, partition, delivered, headers=headers)
        except (KafkaException, BufferError) as error:
            failures.append(str(error))
        unsent = self._producer.flush(FLUSH_S)
        if failures or unsent:
            why = failures[0] if failures else f"no answer within {FLUSH_S:.0f} s"
            raise UnavailableError(
                f"{self._topic}/{partition}: {len(failures) + unsent} of {len(keys)} tombstones not acknowledged: "
                f"{why}. Check that the brokers run and can be reached"
            )
