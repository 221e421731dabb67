"""The topic `<job>.alerts`: reading it, and writing the error that ends a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaException, Producer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range, wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import create_client
from cutwater.adapters.topics.candidates import candidates, promoted
from cutwater.core.errors import CutwaterError, DivergenceError, FencedError
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alerts import TEXT_MAX, Alert, Known
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation

TELL_S = 5.0
_PART_OF = {"rehydrator": alerts.VIEW}


def read_alerts(cluster: Cluster, job: str) -> Known:
    """Return every alert's newest record. Raises UsageError without the topic, UnavailableError without broker."""
    topic = topics.alerts(job)
    partition_count(cluster, topic)
    consumer = make_consumer(cluster)
    try:
        low, high = bounds(consumer, topic, 0)
        values = [bytes(one.value() or b"") for one in read_range(consumer, topic, 0, low)] if low < high else []
    finally:
        consumer.close()
    found = (protocol_records.decode(value) for value in values)
    return alerts.fold(one for one in found if isinstance(one, Alert))


def message_of(alert: Alert) -> dict[str, bytes]:
    """Return key and value of an alert's record. Compaction keeps the newest of each kind and part by this key."""
    return {"key": f"{alert.kind}/{alert.part}".encode(), "value": protocol_records.encode(alert)}


@contextmanager
def alert_on_error(
    cluster: Cluster, job: str, generation: Generation, service: str, now_ms: Callable[[], int], log: Any
) -> Iterator[None]:
    """Write an alert for an error that leaves the block, and raise it again."""
    try:
        yield
    except CutwaterError as error:
        write_end_alert(cluster, job, generation, service, error, now_ms(), log)
        raise


def write_end_alert(
    cluster: Cluster, job: str, generation: Generation, service: str, error: CutwaterError, now_ms: int, log: Any
) -> None:
    """Raise an alert for an error that ends a service and that no record of the streams shows.

    Best effort with a time limit: the service ends anyway with its own error. An active alert is not written
    again, so that a service in a restart loop writes it once.
    """
    kind = _kind(error)
    if kind is None:
        return
    try:
        wait_for_broker(cluster, TELL_S)
        if isinstance(error, FencedError) and _over(cluster, job, generation):
            return  # an expected end
        part = _PART_OF.get(service, service)
        before = read_alerts(cluster, job).get((kind, part))
        if before is None or not before.on:
            raised_ms = alerts.next_raised_ms(before, now_ms)
            text = str(error)[:TEXT_MAX]
            _write(cluster, Alert(job, generation, kind, part, service, raised_ms, None, 0, 0, text))
    except (CutwaterError, KafkaException) as problem:
        log.warning("the alert could not be written", kind=kind, problem=str(problem))


def _over(cluster: Cluster, job: str, generation: Generation) -> bool:
    """Return whether another generation is promoted, or this one is withdrawn."""
    last = promoted(cluster, job)
    if last is not None and last.generation.number > generation.number:
        return True
    candidate = candidates(cluster, job).by_id.get(generation) if is_claimed(generation) else None
    return candidate is not None and not candidate.open


def _kind(error: CutwaterError) -> str | None:
    if isinstance(error, FencedError):
        return alerts.FENCED_WRITER
    return alerts.DIVERGENCE if isinstance(error, DivergenceError) else None


def _write(cluster: Cluster, alert: Alert) -> None:
    producer = create_client(cluster, Producer, {"acks": "all", "message.timeout.ms": int(TELL_S * 1000)})
    producer.produce(topics.alerts(alert.job), partition=0, **message_of(alert))
    if producer.flush(TELL_S + 1):
        raise KafkaException(f"{topics.alerts(alert.job)} did not acknowledge it within {TELL_S:g} s")
