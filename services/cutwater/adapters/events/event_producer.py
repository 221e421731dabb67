"""A producer of events in the job's format: checked against its schema, keyed, idempotent, with back-pressure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cutwater.adapters.events.event_encoder import event_encoder
from cutwater.adapters.events.registry import Registry
from cutwater.adapters.kafka.client import explain
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import Refusals, create_client
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.topics import LISTED_BYTES_MAX

WAIT_S = 60.0
QUEUE_MAX = 100_000
_REPORT_EVERY = 1_000
_STEP_S = 0.5
"""Interval of checks for refusals while waiting."""
_PURGE_TRIES = 3
_OUT_OF_STEP = frozenset(
    {
        KafkaError._FATAL,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.INVALID_PRODUCER_EPOCH,  # without a transactional id there is no fencing
    }
)
"""Errors of events after the brokers have lost the producer's sequence, or the client has purged them for that."""

Partitioner = Callable[[bytes | None], int | None]
"""Returns the partition for a record's key; None if the client's own partitioner selects it."""
Acknowledged = Callable[[CutwaterError | None], None]
"""Called once for each event: with None once it is acknowledged, else with the reason of the failure."""


_ANY = -1
"""For librdkafka: its partitioner selects the partition."""


def _by_client(_key: bytes | None) -> int | None:
    return None


def require_own_source(job: Job) -> None:
    """Raise UsageError if the source is another job's output, which only that job may write, or is not known."""
    if job.attached:
        raise UsageError(f"job {job.name} is attached to a query of your own: produce to the topics that it reads")
    if job.upstream:
        raise UsageError(
            f"the source of job {job.name} is the output of job {job.upstream}, which only that job writes: "
            "produce to its source"
        )


class Encoded(NamedTuple):
    key: bytes | None
    """Of the record; None if the job's key is computed."""
    value: bytes


class EventWriter:
    """Produces the events of one job. Raises UsageError for an event that does not fit the schema.

    Events in format confluent need the registry. `queue_max`: the maximum number of unacknowledged events.
    `wait_s`: the maximum time for one. Fields that are not in the schema are left out; with `strict` they are
    errors.

    If the brokers lose the client's sequence, as after an unclean leader election, a new client replaces it. The
    events in flight fail; if the caller sends them again, some may be duplicated.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        registry: Registry | None = None,
        *,
        queue_max: int = QUEUE_MAX,
        wait_s: float = WAIT_S,
        strict: bool = False,
        partitioner: Partitioner = _by_client,
    ) -> None:
        self._job = job
        computed = {*job.column_types, *(one.name for one in job.element_columns)}
        self._is_key_computed = not computed.isdisjoint(job.key_fields)
        self._wait_s = wait_s
        self._strict = strict
        self._partitioner = partitioner
        self._encode = event_encoder(job, registry)
        self._fields = {field["name"] for field in job.event_schema["fields"]}
        self._failure: CutwaterError | None = None
        self._refusals = Refusals(cluster)
        self.acknowledged = 0
        """Events acknowledged since the writer was created."""
        self._make = partial(
            create_client,
            cluster,
            Producer,
            {
                **QUIET,  # a program may send only one event per hour
                "error_cb": self._refusals.on_error,
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": queue_max,
                # The job file and the topic bound an event; the client's own default is 1 MB.
                "message.max.bytes": LISTED_BYTES_MAX,
                "message.timeout.ms": max(1, int(wait_s * 1000)),
            },
        )
        self._producer: Producer = self._make()
        self._one_replaces = threading.Lock()

    def write_all(
        self, events: Iterable[Mapping[str, Any]], report: Callable[[int], None] = lambda _: None
    ) -> int:
        """Produce every event and wait until all are acknowledged; `report` gets the running count.

        Returns the number delivered. Raises UnavailableError if the brokers do not acknowledge in time;
        UsageError if they never will.
        """
        count = 0
        try:
            for event in events:
                self.send(event)
                count += 1
                if count % _REPORT_EVERY == 0:
                    report(count)
        except BaseException:
            self._drain()  # events before an invalid one are still delivered
            raise
        self.flush()
        report(count)
        return count

    def send(self, event: Mapping[str, Any]) -> None:
        """Hand one event to the client; waits while its queue is full.

        Raises UsageError for an invalid event, which is not sent; UnavailableError if the queue stays full or an
        earlier event was not delivered. The latter repeats until `flush` has raised it.
        """
        self.send_encoded(self.encoded(event))

    def send_encoded(self, encoded: Encoded) -> None:
        """Hand one record to the client, whatever its bytes are; otherwise as `send`."""
        self.poll(0)
        self._raise_failure()
        deadline = time.monotonic() + self._wait_s
        while not self.offer(encoded, self._note):
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{self._job.topic} accepts no events for {self._wait_s:g} s; check the broker"
                )
            self.poll(_STEP_S)
            self._raise_failure()

    def flush(self) -> None:
        """Wait until all are acknowledged. Returns only if every event since the last `flush` is delivered.

        Raises UnavailableError if the brokers do not acknowledge in time; UsageError if they never will.
        """
        left = self._drain()
        self._raise_failure(forget=True)
        if left:
            raise UnavailableError(
                f"{left} events to {self._job.topic} were not acknowledged in {self._wait_s:g} s"
            )

    def encoded(self, event: Mapping[str, Any]) -> Encoded:
        """Return key and value; raises UsageError naming an invalid field."""
        unknown = event.keys() - self._fields if self._strict else ()
        if unknown:
            raise UsageError(
                f"an event of {self._job.topic} has fields that its schema does not have: "
                f"{', '.join(sorted(map(str, unknown)))}"
            )
        record = {name: value for name, value in event.items() if name in self._fields}
        value = self._encode(record)
        missing = self._job.missing_key_fields(record)
        if missing and not self._is_key_computed:
            part = "the key" if self._job.key_columns is None else "a column of the key"
            raise UsageError(f"an event of {self._job.topic} has no {missing[0]}, which is {part} to group by")
        key = None if missing or self._is_key_computed else self._job.key_of(record)
        if self._strict and len(value) > self._job.max_event_bytes:
            raise UsageError(
                f"an event of {self._job.topic} has {len(value):,} bytes, but max_event_bytes of the job file is "
                f"{self._job.max_event_bytes:,}"
            )
        return Encoded(None if key is None else key.encode(), value)

    def offer(self, event: Encoded, acknowledged: Acknowledged) -> bool:
        """Hand an event to the client without waiting; return False if its bounded queue is full."""

        def delivered(error: KafkaError | None, _message: Message) -> None:
            acknowledged(None if error is None else self._explain(KafkaException(error)))

        producer, partition = self._producer, self._partitioner(event.key)
        try:
            producer.produce(
                self._job.topic,
                value=event.value,
                key=event.key,
                partition=_ANY if partition is None else partition,
                on_delivery=delivered,
            )
        except BufferError:
            return False
        except KafkaException as error:
            if error.args[0].code() == KafkaError._FATAL:
                self._replace(producer)
            raise self._explain(error) from None
        return True

    def poll(self, timeout_s: float) -> None:
        """Serve acknowledgements. Raises UsageError if waiting for them is futile."""
        self._served(lambda producer: producer.poll(timeout_s))
        self._refusals.raise_final()

    def _drain(self) -> int:
        # In steps, so that a refusal is noticed.
        deadline = time.monotonic() + self._wait_s
        while (left := self._served(lambda one: one.flush(_STEP_S))) and time.monotonic() < deadline:
            self._refusals.raise_final()
        return left

    def _served(self, serve: Callable[[Producer], int]) -> int:
        # Only a fatal error is raised, which CPython may turn into a SystemError: see `TransactionalWriter`.
        producer = self._producer
        try:
            return serve(producer)
        except (KafkaException, SystemError):
            self._replace(producer)
            return len(self._producer)

    def _replace(self, producer: Producer) -> None:
        # Brokers that lost acknowledged events expect another sequence number than the client's. Each event still
        # in its queue is reported as failed.
        with self._one_replaces:
            if self._producer is not producer:
                return
            self._producer = self._make()
        for _ in range(_PURGE_TRIES):
            with suppress(KafkaException, SystemError):
                producer.purge()
                if not producer.flush(_STEP_S):
                    return

    def _note(self, error: CutwaterError | None) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self._failure = self._failure or error

    def _explain(self, error: KafkaException) -> CutwaterError:
        cause = error.args[0]
        if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return UsageError(f"an event is larger than {self._job.topic} allows for a record ({cause.str()})")
        if cause.fatal() or cause.code() in _OUT_OF_STEP:
            return UnavailableError(
                f"producing to {self._job.topic}: this client and the brokers no longer agree on what was written "
                f"({cause.str()}), as after the election of a leader that lacked events. The events in flight may "
                "be there or not: send them again, with a new client. Check whether the topic's brokers may elect "
                "such a leader (unclean.leader.election.enable)"
            )
        return explain(error, f"producing to {self._job.topic}")

    def _raise_failure(self, forget: bool = False) -> None:
        self._refusals.raise_final()
        failure = self._failure
        if forget:
            self._failure = None
        if failure is not None:
            raise failure
