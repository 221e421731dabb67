"""commit-signal: reads the barriers topic, writes milestones. The composition root of the service.

Every decision is in `cutwater.core.commit`; this file moves bytes. A milestone carries the service's own
input position, so both are in one record of one Kafka transaction and cannot come apart.

    python -m cutwater.commit_signal JOBFILE
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError

from cutwater.adapters import wire
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.crashing import reach
from cutwater.adapters.kafka import (
    TransactionalWriter,
    assign,
    make_consumer,
    partition_count,
    raise_read_error,
    read_tail,
)
from cutwater.adapters.metering import serve
from cutwater.adapters.process import now_ms, run_service
from cutwater.adapters.settings import Settings
from cutwater.adapters.trail import account
from cutwater.adapters.waiting import await_brokers
from cutwater.commit_signal.brokers import Brokers
from cutwater.commit_signal.metrics import Metrics
from cutwater.core import topics
from cutwater.core.commit import SignalState, resume, step
from cutwater.core.errors import ProtocolError
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.core.records import Barrier, Committed, Heartbeat, Milestone, Signal, Start, StreamRecord
from cutwater.core.trail import Account, unrecorded

POLL_S = 0.1


class CommitSignal:
    """One signaller of one job; at most one lives, by its transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        generation: Generation,
        now_ms: Callable[[], int],
        log: Any,
        account: Account | None = None,
        metrics: Metrics | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._generation = generation
        self._now_ms = now_ms
        self._log = log
        self._account = account or unrecorded()
        self._metrics = metrics or Metrics()
        self._clock_s = clock_s
        self._stop = threading.Event()

    def stop(self, *_signal: object) -> None:
        self._stop.set()

    def run(self) -> None:
        """Returns when stopped; raises CutwaterError when the protocol or a newer signaller forbids going on."""
        topic = topics.barriers(self._job)
        brokers = Brokers(self._cluster, topic, self._log, self._metrics, self._now_ms, self._clock_s)
        consumer = make_consumer(self._cluster, error_cb=brokers.troubled)
        try:
            with self._account as start:
                writer, state = self._take_over(consumer, start)
            assign(consumer, topic, {0: state.position})
            self._follow(consumer, writer, state, brokers)
        finally:
            consumer.close()

    def _take_over(self, consumer: Consumer, start: Account) -> tuple[TransactionalWriter, SignalState]:
        with start.step("reading the commit stream"):
            before = self._read_state(consumer)  # leaves, when another generation is promoted, without fencing it
        with start.step("fencing older signallers"):
            writer = TransactionalWriter(self._cluster, topics.signal_id(self._job))
            writer.initialise()
        with start.step("reading what they left"):
            state = self._read_state(consumer)  # what the fenced signaller wrote meanwhile is final now
        newest = state.last.token if state.last else "none"
        start.found(milestone=newest, attempt=state.attempt, barriers_position=state.position)
        start.decided(f"go on behind milestone {newest}, with the barriers from offset {state.position} on")
        self._metrics.took(state, state.position - 1)
        self._log.info("ready", sequence=state.last.sequence if state.last else 0, was=before.position)
        return writer, state

    def _read_state(self, consumer: Consumer) -> SignalState:
        values = read_tail(consumer, topics.milestones(self._job), 0, self._has_milestone)
        return resume(self._job, self._generation, [_stream_record(value) for value in values], wire.hash_of)

    def _has_milestone(self, values: list[bytes]) -> bool:
        return any(isinstance(wire.decode(value), Milestone) for value in values)

    def _follow(
        self, consumer: Consumer, writer: TransactionalWriter, state: SignalState, brokers: Brokers
    ) -> None:
        while not self._stop.is_set():
            message = consumer.poll(POLL_S)
            if message is None:
                writer.listen()
                brokers.look(consumer)
                continue
            if message.error() is not None:
                if message.error().code() != KafkaError._PARTITION_EOF:
                    raise_read_error(message.error(), message.topic(), message.partition())
                continue
            brokers.heard()
            state = self._take(writer, state, bytes(message.value()), message.offset())

    def _take(self, writer: TransactionalWriter, state: SignalState, value: bytes, offset: int) -> SignalState:
        state, records = step(state, _signal(value), offset, self._now_ms(), wire.hash_of)
        if any(isinstance(record, Milestone) for record in records):
            reach("signal-read")
        if records:
            # Where the outcome is unknown this raises, and a restart reads what the stream really holds.
            writer.write(topics.milestones(self._job), [wire.encode(record) for record in records])
        self._metrics.took(state, offset)
        for record in records:
            self._metrics.wrote(record)
            if isinstance(record, Milestone):
                reach("milestone-written")
                self._log.info("milestone", token=str(record.token), epoch=record.epoch, rows=record.rows)
        return state


def _signal(value: bytes) -> Signal:
    record = wire.decode(value)
    if not isinstance(record, Start | Barrier | Committed | Heartbeat):
        raise ProtocolError(f"a {type(record).__name__} stands on the barriers topic; only drivers write there")
    return record


def _stream_record(value: bytes) -> StreamRecord:
    record = wire.decode(value)
    if not isinstance(record, Milestone | Heartbeat):
        raise ProtocolError(
            f"a {type(record).__name__} stands on the commit stream; only commit-signal writes there"
        )
    return record


def _build(job: Job, settings: Settings, log: Any) -> CommitSignal:
    start = account("commit-signal", job.name, settings.generation, settings.cluster, log)
    with start.step("waiting for the brokers"):
        await_brokers(settings.cluster, settings.wait_ms / 1000, log)
    for topic in (topics.barriers(job.name), topics.milestones(job.name)):
        partition_count(settings.cluster, topic)
    metrics = Metrics()
    serve(metrics.registry, settings.host, settings.signal_port, "CUTWATER_SIGNAL_PORT")
    return CommitSignal(settings.cluster, job.name, settings.generation, now_ms, log, start, metrics)


def main() -> int:
    """Entry point; returns the exit code."""
    return run_service("commit-signal", _build)
