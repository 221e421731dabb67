"""A producer's follower of the spreading plan, in a thread of its own.

It reads `<job>.spread`, puts the newest version in force, and says so on that topic. A producer does not depend on
it: without the topic, the rights or the brokers it works with the version that it has, or with none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from uuid import uuid4

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.hashing import key_hash
from cutwater.adapters.kafka.client import bounds, partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.long_lived_consumer import LongLivedConsumer
from cutwater.adapters.kafka.single_record import write_record
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.adapters.runtime.process_name import process_name
from cutwater.adapters.topics.spread_plan import NO_PLAN, SpreadState, fold_record, producer_key
from cutwater.core.errors import CutwaterError
from cutwater.core.protocol import topics
from cutwater.core.skew.spread_plan import Adoption, Placement

FIRST_S = 5.0
"""How long a new producer waits for the plan before it works without one."""
SAY_EVERY_S = 60.0
"""A third of `SILENT_MS`."""
RETRY_S = 30.0
"""Between two looks for a topic that is missing, or may not be read."""
_POLL_S = 0.25
_SAY_S = 5.0

_log = logging.getLogger(__name__)


class SpreadFollower:
    """Follows the plan of one job until `close`. `partitions`: of its source topic."""

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        partitions: int,
        clock_ms: Callable[[], int] = now_ms,
        retry_s: float = RETRY_S,
    ) -> None:
        self.producer = f"{process_name()}-{uuid4().hex[:8]}"
        self._cluster = cluster
        self._job = job
        self._topic = topics.spread(job)
        self._partitions = partitions
        self._clock_ms = clock_ms
        self._retry_s = retry_s
        self._turn = key_hash(self.producer) % max(1, partitions)
        self._placement = Placement(None, partitions)
        self._said = False
        self._tried: int | None = None
        """The version that it said last, or tried to."""
        self._next_say_s = 0.0
        self._read_once, self._ended = threading.Event(), threading.Event()
        self._warned = ""
        self._thread = threading.Thread(target=self._run, name="spreading plan", daemon=True)
        self._thread.start()
        self._read_once.wait(FIRST_S)

    @property
    def version(self) -> int:
        """The version in force in this producer; 0 for none."""
        return self._placement.version

    def partition(self, key: bytes | None) -> int | None:
        """Return the partition for the next event of a key; None if the client's partitioner selects it."""
        return self._placement.partition(key)

    def close(self) -> None:
        """Stop following, and take this producer off the topic."""
        self._ended.set()
        self._thread.join(_SAY_S + FIRST_S)
        if self._said:
            self._said = False
            self._write(None)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except CutwaterError as error:
                self._warn(str(error))
            finally:
                self._read_once.set()
            self._ended.wait(self._retry_s)

    def _follow(self) -> None:
        """Follow the topic until `close`. Raises CutwaterError if it cannot be read."""
        partition_count(self._cluster, self._topic)
        read, state = LongLivedConsumer(self._cluster, self._topic, **QUIET), NO_PLAN
        try:
            low, _ = bounds(read.consumer, self._topic, 0)
            read.begin({0: low})
            while not self._ended.is_set():
                for message in read.read(_POLL_S):
                    state = fold_record(state, message.key(), message.value())
                if read.at_end:
                    self._adopt(state)
        finally:
            read.close()

    def _adopt(self, state: SpreadState) -> None:
        version = state.plan.version if state.plan else 0
        if version != self._placement.version:
            # One reference is replaced: an event is sent by the one version or by the other.
            self._placement = Placement(state.plan, self._partitions, self._turn)
        self._read_once.set()
        if version != self._tried or time.monotonic() >= self._next_say_s:
            said = Adoption(self._job, self.producer, version, self._clock_ms())
            self._tried, self._next_say_s = version, time.monotonic() + SAY_EVERY_S
            self._said = self._write(protocol_records.encode(said)) or self._said

    def _write(self, value: bytes | None) -> bool:
        try:
            write_record(self._cluster, self._topic, value, _SAY_S, producer_key(self.producer))
        except CutwaterError as error:
            self._warn(str(error))
            return False
        return True

    def _warn(self, text: str) -> None:
        if text != self._warned:
            self._warned = text
            _log.info("the spreading plan is not followed, or this producer cannot say so: %s", text)
