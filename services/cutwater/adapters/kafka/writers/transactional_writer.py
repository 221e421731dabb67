"""Transactions under one transactional id, whose newer owner fences the older one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from cutwater.adapters.kafka.client import TIMEOUT_S, explain
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.core.errors import CutwaterError, FencedError, HeldUpError, UnavailableError, UsageError
from cutwater.core.job.row_room import ROW_BYTES_MAX

TRANSACTION_TIMEOUT_MS = 30_000
_ASK_S = 3.0


class Batch(NamedTuple):
    """Records for one partition. (confluent-kafka 2.16 ignores a partition named in a record itself.)"""

    topic: str
    partition: int
    records: list[dict[str, bytes]]
    """Each with `value`, and optionally `key`."""


class TransactionalWriter:
    """Writes records in Kafka transactions under one transactional id, which fences its predecessor."""

    def __init__(self, cluster: Cluster, transactional_id: str, **extra: Any) -> None:
        self._id = transactional_id
        self._producer: Producer = cluster.client(
            Producer,
            {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "acks": "all",
                "linger.ms": 0,
                "message.max.bytes": ROW_BYTES_MAX,
                # It is idle between two writes. And a log line during a fatal error makes CPython raise a
                # SystemError instead, which would hide that this writer is fenced.
                **QUIET,
                **extra,
            },
        )

    def initialise(self) -> None:
        """Take over the transactional id: older owners are fenced and their open transactions aborted."""
        self._call("initialising", lambda: self._producer.init_transactions(TIMEOUT_S))

    def listen(self) -> None:
        """Serve the client's callbacks, as it keeps errors while brokers are unreachable."""
        self._call("listening", lambda: self._producer.poll(0))

    def require_own(self, topic: str) -> bool:
        """Raise FencedError if the id has a newer owner, by a record that is never committed.

        Return whether that is known: not if brokers do not answer, which takes some seconds, or if an earlier
        transaction has failed with its own error. A caller that is about to exit need not know.
        """
        unsent = 1

        def ask() -> None:
            nonlocal unsent
            self._producer.begin_transaction()
            self._producer.produce_batch(topic, [{"key": b"asked", "value": b""}], 0)
            unsent = self._producer.flush(_ASK_S)
            self._producer.abort_transaction(_ASK_S)

        with suppress(KafkaException, UnavailableError, UsageError, SystemError):
            self._call("checking the owner", ask)
            return unsent == 0
        return False

    def write(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        """Call `write_all` with records without keys, all for one partition."""
        self.write_all([Batch(topic, partition, [{"value": value} for value in values])])

    def write_all(self, batches: Sequence[Batch]) -> None:
        """Write records to several partitions in one transaction, atomically.

        Raises FencedError if a newer owner exists; UnavailableError if the outcome is unknown: the caller must
        then restart and read what was written.
        """

        def fill() -> None:
            for batch in batches:
                self._enqueue(batch)

        self.transact(", ".join(sorted({batch.topic for batch in batches})), fill)

    def transact(self, names: str, fill: Callable[[], None]) -> None:
        """Commit the records that `fill` produces for these topics. Raises as `write_all` does.

        After an error of `fill` the transaction stays open: the caller must exit, and the next owner aborts it.
        """
        began, doing = time.monotonic(), f"writing to {names}"
        try:
            self._call(doing, lambda: self._transaction(fill))
        except (FencedError, UnavailableError) as error:
            fenced = error if isinstance(error, FencedError) else self._fencing_error(doing)
            if fenced is None:
                raise
            if time.monotonic() - began <= TRANSACTION_TIMEOUT_MS / 1000:
                raise fenced from None
            # The brokers fence a writer that is too slow in the same way, and leave no other trace of it.
            raise HeldUpError(
                f"{doing} as {self._id}: this process was held up for longer than a transaction may take "
                f"({TRANSACTION_TIMEOUT_MS // 1000} s), and the brokers have aborted it; start it again"
            ) from None

    def _fencing_error(self, doing: str) -> FencedError | None:
        # After fencing most calls only report that they cannot continue, but `begin_transaction` names the reason,
        # without a request to the brokers.
        try:
            self._call(doing, self._producer.begin_transaction)
        except FencedError as error:
            return error
        except CutwaterError:
            pass  # the call failed for its own reason
        return None

    def _transaction(self, fill: Callable[[], None]) -> None:
        self._producer.begin_transaction()
        fill()
        reach("transaction-open")
        # Flushes first, and fails if any record was not delivered: no delivery callback is needed. (A callback
        # during a fatal error makes CPython raise a SystemError instead.)
        self._producer.commit_transaction(TIMEOUT_S)

    def _enqueue(self, batch: Batch) -> None:
        """Hand the records to the client in order, waiting while its bounded queue is full."""
        deadline, records = time.monotonic() + TIMEOUT_S, batch.records
        while (taken := self._producer.produce_batch(batch.topic, records, batch.partition)) < len(records):
            first = records[taken]["_error"]
            if first.code() != KafkaError._QUEUE_FULL or time.monotonic() > deadline:
                raise KafkaException(first)
            records = records[taken:]
            self._producer.poll(0.1)

    def _call(self, doing: str, action: Any) -> None:
        try:
            action()
        except KafkaException as error:
            raise explain(error, f"{doing} as {self._id}") from None
