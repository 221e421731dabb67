"""`EventProducer`: writes events to a job's source topic, after a check against its schema."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.events.event_producer import (
    QUEUE_MAX,
    WAIT_S,
    Acknowledged,
    Encoded,
    EventWriter,
    require_own_source,
)
from cutwater.adapters.events.registry import registry_for
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client.spread_follower import SpreadFollower
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.job.job import Job

_POLL_S = 0.1
_PAUSE_S = 0.005


class _Producing:
    def __init__(
        self,
        job: Job | Path | str,
        cluster: Cluster | None = None,
        *,
        queue_max: int = QUEUE_MAX,
        wait_s: float = WAIT_S,
    ) -> None:
        if queue_max < 1 or wait_s <= 0:
            raise UsageError(f"queue_max is {queue_max} and wait_s {wait_s:g}: both must be above 0")
        self._job = job
        self._cluster = cluster
        self._queue_max = queue_max
        self._wait_s = wait_s
        self._spread: SpreadFollower | None = None
        self._begin()

    @property
    def spread_version(self) -> int:
        """The version of the spreading plan that this producer works with; 0 for none (docs/SKEW.md)."""
        return self._spread.version if self._spread else 0

    def _end_spread(self) -> None:
        if self._spread:
            self._spread.close()

    def _begin(self) -> None:
        raise NotImplementedError

    def _make_writer(self) -> EventWriter:
        settings = load_settings()
        job = self._job if isinstance(self._job, Job) else load_job(Path(self._job))
        require_own_source(job)
        cluster = self._cluster or settings.cluster
        # It raises here, not after the first event has waited in vain.
        partitions = partition_count(cluster, job.topic)
        registry = registry_for(job, settings)
        spread = SpreadFollower(cluster, job.name, partitions)
        try:
            writer = EventWriter(
                cluster,
                job,
                registry,
                queue_max=self._queue_max,
                wait_s=self._wait_s,
                strict=True,
                partitioner=spread.partition,
            )
        except BaseException:
            spread.close()
            raise
        self._spread = spread
        return writer


class EventProducer(_Producing):
    """Produces events of a job: each is checked against the schema, keyed, and written once (idempotent).

    `job`: the job, or the path of its file. `cluster`: by default that of the environment's settings.
    `queue_max`: the maximum of unacknowledged events; `send` waits while the queue is full.
    `wait_s`: the time that one event may take, and that `send` or `flush` may wait.

    If an event cannot be delivered, every call raises until `flush` has raised: events sent since the last
    successful `flush` may be written or not. After that the producer can be used again. Leaving the `with` block
    flushes.

    Keys that the job's spreading plan names go to several partitions in turn; `spread_version` tells the version
    in force. A new version is in force within a second.

    Raises UsageError if the topic does not exist or is not writable; UnavailableError if no broker answers.
    """

    def _begin(self) -> None:
        self._writer = self._make_writer()
        self._closed = False

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged events, as far as this process has polled."""
        return self._writer.acknowledged

    def send(self, event: Mapping[str, Any]) -> None:
        """Send one event, a mapping of field names to values. Times are datetimes, without a zone in UTC, or whole
        numbers in the unit of the schema. Raises UsageError for an event that does not fit the schema, and sends
        nothing; UnavailableError as above."""
        if self._closed:
            raise UsageError("this producer is closed: create a new one")
        self._writer.send(event)

    def flush(self) -> None:
        """Wait until the brokers have every event; return only if this is true for all since the last `flush`."""
        self._writer.flush()

    def close(self) -> None:
        """`flush`, and accept no more events."""
        self._closed = True
        try:
            self._writer.flush()
        finally:
            self._end_spread()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except CutwaterError:
            if kind is None:  # else the first error is the one to raise
                raise


class AsyncEventProducer(_Producing):
    """`EventProducer` for asyncio: `await send(event)` ends once the brokers have that event.

    Send many at a time with `asyncio.gather` or a task group; at most `queue_max` of them are in flight. A
    cancelled `send` may still be delivered. The end of the block waits for events that the client has; a `send`
    that has not handed its event over by then raises.
    """

    def _begin(self) -> None:
        self._room = asyncio.Semaphore(self._queue_max)
        self._is_open = False
        self._ended = threading.Event()
        self._waiting: set[asyncio.Future[CutwaterError | None]] = set()

    async def __aenter__(self) -> Self:
        self._writer = await asyncio.to_thread(self._make_writer)
        self._ended.clear()
        self._polling = threading.Thread(target=self._poll, name="acknowledgements", daemon=True)
        self._polling.start()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        try:
            await asyncio.to_thread(self._writer.flush)
        except CutwaterError:
            if kind is None:
                raise
        finally:
            self._ended.set()
            try:
                await asyncio.to_thread(self._polling.join)
            finally:
                self._end_waiting()
            await asyncio.to_thread(self._end_spread)

    def _end_waiting(self) -> None:
        """End the sends whose events were not acknowledged: nobody listens any more."""
        for told in self._waiting:
            if not told.done():
                told.set_result(UnavailableError("the producer was closed before the event was acknowledged"))

    async def send(self, event: Mapping[str, Any]) -> None:
        """Return once the event is acknowledged. Raises as `EventProducer.send` does, for this event only;
        UsageError outside of the producer's `async with` block."""
        self._require_open()
        encoded, loop = self._writer.encoded(event), asyncio.get_running_loop()
        async with self._room:
            told: asyncio.Future[CutwaterError | None] = loop.create_future()

            def acknowledged(failure: CutwaterError | None) -> None:
                loop.call_soon_threadsafe(lambda: None if told.done() else told.set_result(failure))

            deadline = time.monotonic() + self._wait_s
            while not self._offer(encoded, acknowledged):
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"the producer's queue has been full for {self._wait_s:g} s; check the broker"
                    )
                await asyncio.sleep(_PAUSE_S)
            self._waiting.add(told)
            try:
                failure = await told
            finally:
                self._waiting.discard(told)
            if failure is not None:
                raise failure

    def _offer(self, event: Encoded, acknowledged: Acknowledged) -> bool:
        # Again here: the block may have ended while this event waited for room.
        self._require_open()
        return self._writer.offer(event, acknowledged)

    def _require_open(self) -> None:
        if not self._is_open:
            raise UsageError("this producer is not open: send within its 'async with' block")

    def _poll(self) -> None:
        while not self._ended.is_set():
            try:
                self._writer.poll(_POLL_S)
            except UsageError:  # each send ends by its own timeout, and `flush` raises the reason
                self._ended.wait(_POLL_S)
