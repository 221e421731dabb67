"""The driver's writer of the barriers topic: starts, barriers, hints, heartbeats, under one transactional id."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import make_consumer, read_tail
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.own_writes import OwnLog
from cutwater.core.driver.ports import Lock, Past, summarise
from cutwater.core.errors import FencedError, HeldUpError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Committed, Heartbeat, Signal, Start

OnSignal = Callable[[Signal], None]


def _ignore_signal(_signal: Signal) -> None:
    """Ignore the signal."""


class BarrierLog:
    """Writes signals of one (job, generation), once `open` has fenced every older driver."""

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        generation: Generation,
        lock: Lock | None = None,
        told: OnSignal = _ignore_signal,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`told`: called after each written signal."""
        self._cluster = cluster
        self._job = job
        self._generation = generation
        self._told = told
        self._sleep = sleep
        self._writer = TransactionalWriter(cluster, topics.driver_id(job, generation))
        # A transactional producer takes one transaction at a time; two threads write epochs and hints.
        self._lock = lock or threading.Lock()

    def open(self) -> Past:
        """Fence older drivers, then read their signals, which are final now.

        Raise UnavailableError if an open transaction hides some of them: this driver would reuse the number of an
        earlier attempt, and its barriers would be ignored.
        """
        self._writer.initialise()
        OwnLog(self._cluster, [TopicPartition(topics.barriers(self._job), 0)], "the driver", self._sleep).begin()
        return self.read_past()

    def write(self, signal: Signal) -> None:
        """Write one signal. Raise FencedError if a newer driver has taken over."""
        self._lock.acquire()
        try:
            self._writer.write(topics.barriers(self._job), [protocol_records.encode(signal)])
        except HeldUpError as error:
            if self.read_past().attempt > signal.attempt:
                raise FencedError(f"{error}; a newer driver has started meanwhile, so this one exits") from None
            raise
        finally:
            self._lock.release()
        self._told(signal)

    def read_past(self) -> Past:
        """Return the signals on the topic. Without `open` before, an older driver may still add some."""

        def enough(values: list[bytes]) -> bool:
            past = summarise(self._decode(values), self._generation)
            # Two epochs: if the newest is replayed, the one before it is the baseline.
            return past.attempt > 0 and len(past.barriers) >= 2

        consumer = make_consumer(self._cluster)
        try:
            values = read_tail(consumer, topics.barriers(self._job), 0, enough)
        finally:
            consumer.close()
        return summarise(self._decode(values), self._generation)

    def _decode(self, values: list[bytes]) -> list[Signal]:
        records = (protocol_records.decode(value) for value in values)
        return [one for one in records if isinstance(one, Start | Barrier | Committed | Heartbeat)]
