"""The barriers topic as the driver writes it: starts, barriers, hints and heartbeats, under one fenced id."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import TransactionalWriter, make_consumer, read_tail
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.own_writes import OwnLog
from cutwater.core.driver.ports import Lock, Past, summarise
from cutwater.core.errors import FencedError, HeldUpError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Committed, Heartbeat, Signal, Start

Told = Callable[[Signal], None]


def _nobody(_signal: Signal) -> None:
    """Nobody listens."""


class BarrierLog:
    """Writes signals of one (job, generation), once `open` has fenced every older driver."""

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        generation: Generation,
        lock: Lock | None = None,
        told: Told = _nobody,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`told` hears of each signal that is written."""
        self._cluster = cluster
        self._job = job
        self._generation = generation
        self._told = told
        self._sleep = sleep
        self._writer = TransactionalWriter(cluster, topics.driver_id(job, generation))
        # A transactional producer takes one transaction at a time; epochs and hints come from two threads.
        self._lock = lock or threading.Lock()

    def open(self) -> Past:
        """Fence older drivers, then read what they left: nothing can be added to it any more.

        Raises UnavailableError if a transaction without an end hides a part of it: this driver would take the
        number of an attempt that has been, and nobody would hear its barriers.
        """
        self._writer.initialise()
        OwnLog(self._cluster, [TopicPartition(topics.barriers(self._job), 0)], "the driver", self._sleep).begin()
        return self.read_past()

    def write(self, signal: Signal) -> None:
        """Raises FencedError when a newer driver has taken over."""
        self._lock.acquire()
        try:
            self._writer.write(topics.barriers(self._job), [protocol_records.encode(signal)])
        except HeldUpError as error:
            if self.read_past().attempt > signal.attempt:
                raise FencedError(f"{error}; but a newer driver has started meanwhile: this one leaves") from None
            raise
        finally:
            self._lock.release()
        self._told(signal)

    def read_past(self) -> Past:
        """What is on the topic now; an older driver may still add to it, unless `open` was called before."""

        def enough(values: list[bytes]) -> bool:
            past = summarise(self._decode(values), self._generation)
            # Two epochs: the newest may be replayed, and the one before it is then the baseline.
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
