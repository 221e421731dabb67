"""Copies of records with keys, values, headers and times, in transactions with a proof.

confluent-kafka takes no headers in batches of records (2.16), so each record is produced separately.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message

from cutwater.adapters.kafka.client import TIMEOUT_S, explain
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter
from cutwater.core.errors import DivergenceError, UnavailableError, UsageError
from cutwater.core.protocol.topics import LISTED_BYTES_MAX

_AGAINST_SETTINGS = frozenset({KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD})
"""Errors from the topic's settings: a retry does not help."""
_LEFT_OVER = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Errors of records that the client drops after another one of the transaction failed, perhaps reported first."""
_REASON_S = 3.0
"""Time in which only dropped records may be reported, before all are written again to learn the reason."""
_TRIES = 3
"""Attempts to learn the reason: on a busy machine the report may be late again."""
Headers = list[tuple[str, bytes | None]]


class CopyRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    """0 for now."""


class Copies(NamedTuple):
    """Records of one partition, in order."""

    topic: str
    partition: int
    records: Sequence[CopyRecord]


class RejectedError(UsageError):
    """A topic does not accept a record: a permission is missing, or the record violates the topic's settings."""

    def __init__(self, message: str, topic: str) -> None:
        super().__init__(message)
        self.topic = topic


class _UnknownReasonError(UsageError):
    """A record failed, but the client has reported only records that it dropped."""


class Reports:
    def __init__(self) -> None:
        self.failed: tuple[KafkaError, str] | None = None
        """The error of a failed record, and its topic."""

    def hear(self, error: KafkaError | None, message: Message) -> None:
        """Keep the first error that names a reason."""
        if error is not None and not self.has_reason:
            self.failed = error, str(message.topic())

    @property
    def has_reason(self) -> bool:
        return self.failed is not None and self.failed[0].code() not in _LEFT_OVER


class CopyingWriter(TransactionalWriter):
    """Writes copies in transactions. `initialise` fences older owners of the id."""

    def __init__(self, cluster: Cluster, transactional_id: str, **extra: Any) -> None:
        settings = {
            "linger.ms": 5,
            "compression.type": "lz4",
            "message.max.bytes": LISTED_BYTES_MAX,
            "queue.buffering.max.messages": 200_000,
            "delivery.report.only.error": True,
        }
        super().__init__(cluster, transactional_id, **settings | extra)
        self._reports = Reports()

    def copy(self, copies: Sequence[Copies], proof: Callable[[], Sequence[Batch]]) -> None:
        """Write copies and, in the same transaction, the records that `proof` returns once they are acknowledged.

        Nothing is committed if `proof` raises DivergenceError, or if a topic rejects its records, which raises
        NotTakenError. Raises as `write_all` does.
        """
        for left in reversed(range(_TRIES)):
            try:
                self._copy_once(copies, proof)
                return
            except _UnknownReasonError as error:  # another attempt shows which record failed
                if not left:
                    raise UnavailableError(str(error)) from None

    def _copy_once(self, copies: Sequence[Copies], proof: Callable[[], Sequence[Batch]]) -> None:
        self._reports = Reports()  # late reports belong to earlier attempts

        def fill() -> None:
            try:
                for one in copies:
                    self._copy(one)
            except KafkaException:
                # After a failed record the client accepts no more, and raises before it reports that record.
                self._require_taken()
                raise
            self._require_taken()
            for batch in proof():
                self._enqueue(batch)

        try:
            self.transact(", ".join(sorted({one.topic for one in copies})) or "positions", fill)
        except (UsageError, DivergenceError):
            # If a newer owner of this id wrote or deleted there, this raises FencedError.
            self._call("aborting", lambda: self._serve_reports(self._abort))
            raise

    def _abort(self) -> int:
        self._producer.abort_transaction(TIMEOUT_S)
        return 0

    def _require_taken(self) -> None:
        # Before the proof, which would take missing records for deleted ones.
        self._hear_of_all()
        if self._reports.failed is None:
            return
        error, topic = self._reports.failed
        if error.code() in _AGAINST_SETTINGS:
            raise RejectedError(
                f"writing to {topic}: the brokers reject a record with the origin's values ({error.str()}); set "
                "the origin's message.timestamp.* settings and cleanup.policy on this topic",
                topic,
            )
        explained = explain(error, f"writing to {topic}")
        if error.code() in _LEFT_OVER:
            raise _UnknownReasonError(str(explained))
        raise RejectedError(str(explained), topic) if isinstance(explained, UsageError) else explained

    def _hear_of_all(self) -> None:
        """Serve the client's reports until there are no more, or one names the reason of a failure."""
        began = time.monotonic()
        while not self._reports.has_reason and (left := self._serve_reports(lambda: self._producer.flush(0.5))):
            waited = time.monotonic() - began
            # It keeps a record that was queued during the failure, and reports it only after the transaction.
            if self._reports.failed is not None and waited > _REASON_S:
                return
            if waited > TIMEOUT_S:
                raise UnavailableError(f"{left} copied records were not acknowledged in {TIMEOUT_S:g} s")

    def _serve_reports(self, serve: Callable[[], int]) -> int:
        """Serve the client's reports. CPython turns a fatal error during them into a SystemError."""
        try:
            return serve()
        except SystemError:
            self._abort()  # raises the actual error: the client is unusable after it
            raise UnavailableError("the Kafka client failed while it reported rejected records") from None

    def _copy(self, copies: Copies) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        for one in copies.records:
            while not self._offer(copies, one):
                if time.monotonic() > deadline:
                    raise UnavailableError(f"writing to {copies.topic}: no record accepted for {TIMEOUT_S:g} s")
                self._serve_reports(lambda: self._producer.poll(0.1))

    def _offer(self, at: Copies, one: CopyRecord) -> bool:
        try:
            # Reports arrive only in `flush` and `poll`: after those no record is left to report.
            self._producer.produce(
                at.topic,
                one.value,
                one.key,
                at.partition,
                self._reports.hear,
                timestamp=one.timestamp_ms,
                headers=one.headers,
            )
        except BufferError:
            return False
        except KafkaException as error:
            if isinstance(explained := explain(error, f"writing to {at.topic}"), UsageError):
                raise RejectedError(str(explained), at.topic) from None
            raise
        return True
