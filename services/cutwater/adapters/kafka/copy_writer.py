"""Records written as they were read elsewhere: keys, values, headers and times, in transactions with a proof.

confluent-kafka takes no headers in batches of records (2.16), so each is handed over by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message

from cutwater.adapters.kafka.client import TIMEOUT_S, Batch, TransactionalWriter, explain
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import DivergenceError, UnavailableError, UsageError
from cutwater.core.protocol.topics import LISTED_BYTES_MAX

_AGAINST_SETTINGS = frozenset({KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD})
"""The topic's own: asking again does not help."""
_LEFT_OVER = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""The client drops the others of a transaction when one is not taken, and may tell of them first."""
_REASON_S = 3.0
"""How long it may tell only of records that it dropped, before they are written once more to learn why."""
_TRIES = 3
"""How often they are written to learn why: on a busy machine it may tell too late once more."""
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


class NotTakenError(UsageError):
    """A topic does not take what is written to it: a right is missing, or a record is not to its settings."""

    def __init__(self, message: str, topic: str) -> None:
        super().__init__(message)
        self.topic = topic


class _UntoldError(UsageError):
    """A topic does not take a record, and the client has dropped that one with the others."""


class Reports:
    """What the client tells of the records of one transaction."""

    def __init__(self) -> None:
        self.failed: tuple[KafkaError, str] | None = None
        """Why one was not taken, and its topic."""

    def hear(self, error: KafkaError | None, message: Message) -> None:
        """Of a record that was not taken: the first that says why is kept."""
        if error is not None and not self.say_why:
            self.failed = error, str(message.topic())

    @property
    def say_why(self) -> bool:
        """No more is to be learnt."""
        return self.failed is not None and self.failed[0].code() not in _LEFT_OVER


class CopyingWriter(TransactionalWriter):
    """Writes copies in transactions. Any older owner of the id is fenced by `initialise`."""

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
        """Write copies, and in the same transaction what `proof` gives, which is asked once they are acknowledged.

        Where `proof` raises DivergenceError nothing is committed; neither where a topic does not take its records,
        which raises NotTakenError. Raises as `write_all` does.
        """
        for left in reversed(range(_TRIES)):
            try:
                self._copy_once(copies, proof)
                return
            except _UntoldError as error:  # which record it was comes to light when they are written once more
                if not left:
                    raise UnavailableError(str(error)) from None

    def _copy_once(self, copies: Sequence[Copies], proof: Callable[[], Sequence[Batch]]) -> None:
        self._reports = Reports()  # another one's records may still be told of

        def fill() -> None:
            try:
                for one in copies:
                    self._copy(one)
            except KafkaException:
                # The client takes no more once one was refused, and says so before it tells of that one.
                self._require_taken()
                raise
            self._require_taken()
            for batch in proof():
                self._enqueue(batch)

        try:
            self.transact(", ".join(sorted({one.topic for one in copies})) or "positions", fill)
        except (UsageError, DivergenceError):
            # Somebody wrote or deleted there? If that is a newer owner of this id, this process just leaves.
            self._call("aborting", lambda: self._telling(self._abort))
            raise

    def _abort(self) -> int:
        self._producer.abort_transaction(TIMEOUT_S)
        return 0

    def _require_taken(self) -> None:
        """Before the proof: where records are missing that were not taken, it would find that somebody deletes."""
        self._hear_of_all()
        if self._reports.failed is None:
            return
        error, topic = self._reports.failed
        if error.code() in _AGAINST_SETTINGS:
            raise NotTakenError(
                f"writing to {topic}: the brokers refuse a record as it is in the origin ({error.str()}); give "
                "the topic here the origin's message.timestamp.* settings and cleanup.policy",
                topic,
            )
        explained = explain(error, f"writing to {topic}")
        if error.code() in _LEFT_OVER:
            raise _UntoldError(str(explained))
        raise NotTakenError(str(explained), topic) if isinstance(explained, UsageError) else explained

    def _hear_of_all(self) -> None:
        """Serve the client's reports until there are no more, or one says why a record was not taken."""
        began = time.monotonic()
        while not self._reports.say_why and (left := self._telling(lambda: self._producer.flush(0.5))):
            waited = time.monotonic() - began
            # It keeps one that came as another was refused, and tells nothing of it before the transaction ends.
            if self._reports.failed is not None and waited > _REASON_S:
                return
            if waited > TIMEOUT_S:
                raise UnavailableError(f"{left} copied records were not acknowledged in {TIMEOUT_S:g} s")

    def _telling(self, serve: Callable[[], int]) -> int:
        """Let the client tell of records. CPython makes a SystemError of a fatal error that comes with them."""
        try:
            return serve()
        except SystemError:
            self._abort()  # says which it was: after it nothing works any more
            raise UnavailableError("the Kafka client failed while it told which records were not taken") from None

    def _copy(self, copies: Copies) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        for one in copies.records:
            while not self._offered(copies, one):
                if time.monotonic() > deadline:
                    raise UnavailableError(f"writing to {copies.topic}: no record is taken for {TIMEOUT_S:g} s")
                self._telling(lambda: self._producer.poll(0.1))

    def _offered(self, at: Copies, one: Copied) -> bool:
        """Hand a record to the client; False where its bounded queue is full."""
        try:
            # Called in `flush` and `poll` only: once those are through, no record is left that it could tell of.
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
                raise NotTakenError(str(explained), at.topic) from None
            raise
        return True
