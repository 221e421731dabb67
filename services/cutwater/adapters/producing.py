"""Events onto a topic: in the job's format, checked against its schema, keyed, idempotent, with back-pressure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.eventschemas import event_encoder
from cutwater.adapters.kafka import explain
from cutwater.adapters.reaching import Refusals, made
from cutwater.adapters.registry import Registry
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job import Job

FLUSH_S = 60.0
_POLL_EVERY = 1_000


class EventWriter:
    """Produces the events of one job. Raises UsageError for an event that does not fit the schema.

    Events in format confluent need the registry.
    """

    def __init__(self, cluster: Cluster, job: Job, registry: Registry | None = None) -> None:
        self._job = job
        self._encode = event_encoder(job, registry)
        self._fields = {field["name"] for field in job.event_schema["fields"]}
        self._failure: KafkaError | None = None
        self._refusals = Refusals(cluster)
        self._producer: Producer = made(
            Producer,
            {
                **cluster.librdkafka(),
                "error_cb": self._refusals.heard,
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 100_000,
            },
        )

    def write_all(
        self, events: Iterable[Mapping[str, Any]], report: Callable[[int], None] = lambda _: None
    ) -> int:
        """Produce every event and wait until all are acknowledged; `report` gets the running count.

        Returns the number delivered. Raises UnavailableError when the broker does not take them in time;
        UsageError when it will never let us in.
        """
        count = 0
        try:
            for event in events:
                self._write(event)
                count += 1
                if count % _POLL_EVERY == 0:
                    self._producer.poll(0)
                    self._raise_failure()
                    report(count)
        finally:  # what was taken before a bad event is delivered all the same
            left = self._flush()
        self._raise_failure()
        if left:
            raise UnavailableError(f"{left} events to {self._job.topic} were not acknowledged in {FLUSH_S:.0f} s")
        report(count)
        return count

    def _flush(self) -> int:
        """How many are not acknowledged after the bound; in steps, so that a refusal is heard."""
        left = 0
        for _ in range(int(FLUSH_S)):
            left = self._producer.flush(1.0)
            if not left:
                break
            self._refusals.raise_final()
        return left

    def _write(self, event: Mapping[str, Any]) -> None:
        record = {name: value for name, value in event.items() if name in self._fields}
        value = self._encode(record)
        if record[self._job.key_field] is None:
            raise UsageError(
                f"an event of {self._job.topic} has no {self._job.key_field}: it is the key to group by"
            )
        key = str(record[self._job.key_field]).encode()
        for _ in range(int(FLUSH_S)):
            try:
                self._producer.produce(self._job.topic, value=value, key=key, on_delivery=self._delivered)
            except BufferError:  # the bounded queue is full: wait for acknowledgements
                self._producer.poll(1.0)
                self._raise_failure()
            else:
                return
        raise UnavailableError(f"{self._job.topic} takes no events for {FLUSH_S:.0f} s; check the broker")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error

    def _raise_failure(self) -> None:
        self._refusals.raise_final()
        if self._failure is not None:
            raise explain(KafkaException(self._failure), f"producing to {self._job.topic}")
