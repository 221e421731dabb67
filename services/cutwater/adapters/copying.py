"""Records written as they were read elsewhere: keys, values, headers and times, in transactions with a proof.

confluent-kafka takes no headers in batches of records (2.16), so each is handed over by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import TIMEOUT_S, Batch, TransactionalWriter
from cutwater.core.errors import DivergenceError, UnavailableError
from cutwater.core.topics import LISTED_BYTES_MAX

Headers = list[tuple[str, bytes | None]]


class Copied(NamedTuple):
    """One record to be written."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    """0 for the present."""


class Copies(NamedTuple):
    """Records of one partition, in order."""

    topic: str
    partition: int
    records: Sequence[Copied]


class CopyingWriter(TransactionalWriter):
    """Writes copies in transactions. Any older owner of the id is fenced by `initialise`."""

    def __init__(self, cluster: Cluster, transactional_id: str, **extra: Any) -> None:
        settings = {
            "linger.ms": 5,
            "compression.type": "lz4",
            "message.max.bytes": LISTED_BYTES_MAX,
            "queue.buffering.max.messages": 200_000,
        }
        super().__init__(cluster, transactional_id, **settings | extra)

    def copy(self, copies: Sequence[Copies], proof: Callable[[], Sequence[Batch]]) -> None:
        """Write copies, and in the same transaction what `proof` gives, which is asked once they are acknowledged.

        Where `proof` raises DivergenceError nothing is committed. Raises as `write_all` does.
        """

        def fill() -> None:
            for one in copies:
                self._copy(one)
            if left := self._producer.flush(TIMEOUT_S):
                raise UnavailableError(f"{left} copied records were not acknowledged in {TIMEOUT_S:g} s")
            for batch in proof():
                self._enqueue(batch)

        try:
            self.transact(", ".join(sorted({one.topic for one in copies})) or "positions", fill)
        except DivergenceError:
            # Somebody wrote there. If that is a newer owner of this id, it is no divergence: this process leaves.
            self._call("aborting", lambda: self._producer.abort_transaction(TIMEOUT_S))
            raise

    def _copy(self, copies: Copies) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        for one in copies.records:
            while not self._offered(copies, one):
                if time.monotonic() > deadline:
                    raise UnavailableError(f"writing to {copies.topic}: no record is taken for {TIMEOUT_S:g} s")
                self._producer.poll(0.1)

    def _offered(self, at: Copies, one: Copied) -> bool:
        """Hand a record to the client; False where its bounded queue is full."""
        try:
            self._producer.produce(
                at.topic, one.value, one.key, at.partition, timestamp=one.timestamp_ms, headers=one.headers
            )
        except BufferError:
            return False
        return True
