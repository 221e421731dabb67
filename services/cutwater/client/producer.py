"""`EventProducer`: events onto a job's source topic, checked against its schema before they are sent."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.events.event_producer import QUEUE_MAX, WAIT_S, EventWriter
from cutwater.adapters.events.registry import registry_for
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.job.job import Job

_POLL_S = 0.1
_PAUSE_S = 0.005


class _Producing:
    """What both producers are made of."""

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
        self._begin()

    def _begin(self) -> None:
        """What there is to do when it is made."""
        raise NotImplementedError

    def _make_writer(self) -> EventWriter:
        settings = load_settings()
        job = self._job if isinstance(self._job, Job) else load_job(Path(self._job))
        cluster = self._cluster or settings.cluster
        partition_count(cluster, job.topic)  # said here, and not after the first event has waited in vain
        registry = registry_for(job, settings)
        return EventWriter(cluster, job, registry, queue_max=self._queue_max, wait_s=self._wait_s, strict=True)


class EventProducer(_Producing):
    """Produces events of a job: each checked against the schema, keyed, and written once (idempotent).

    job: the job, or the path of its file. cluster: default the settings of the environment. queue_max: the events
    that may wait for their acknowledgement; `send` waits while there are so many. wait_s: how long one event may
    take, and `send` or `flush` may wait.

    An event that could not be delivered raises at the next call, and at each one until `flush` has raised it:
    what was sent since the `flush` before may be there or not. The same producer takes them again. Leaving the
    `with` block flushes.

    Raises UsageError when the topic does not exist or we may not write; UnavailableError when no broker answers.
    """

    def _begin(self) -> None:
        self._writer = self._make_writer()
        self._closed = False

    @property
    def acknowledged(self) -> int:
        """How many events the brokers have acknowledged, as far as this process has looked."""
        return self._writer.acknowledged

    def send(self, event: Mapping[str, Any]) -> None:
        """Take one event, by field names. Times are milliseconds or aware datetimes.

        Raises UsageError for one that does not fit, and sends nothing; UnavailableError as the class says.
        """
        if self._closed:
            raise UsageError("this producer is closed: make a new one")
        self._writer.send(event)

    def flush(self) -> None:
        """Wait until the brokers have every event; returns only if that is so for all since the last `flush`."""
        self._writer.flush()

    def close(self) -> None:
        """`flush`, and take no more."""
        self._closed = True
        self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except CutwaterError:
            if kind is None:  # else the first error is the one to tell
                raise


class AsyncEventProducer(_Producing):
    """`EventProducer` for asyncio: `await send(event)` ends once the brokers have that event.

    Send many at a time with `asyncio.gather` or a task group; `queue_max` of them are on their way at once. A
    cancelled `send` may still be delivered.
    """

    def _begin(self) -> None:
        self._room = asyncio.Semaphore(self._queue_max)
        self._ended = threading.Event()

    async def __aenter__(self) -> Self:
        self._writer = await asyncio.to_thread(self._make_writer)
        self._polling = threading.Thread(target=self._poll, name="acknowledgements", daemon=True)
        self._polling.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.to_thread(self._writer.flush)
        except CutwaterError:
            if kind is None:
                raise
        finally:
            self._ended.set()
            await asyncio.to_thread(self._polling.join)

    async def send(self, event: Mapping[str, Any]) -> None:
        """Returns once the event is acknowledged. Raises as `EventProducer.send` does, for this very event."""
        encoded, loop = self._writer.encoded(event), asyncio.get_running_loop()
        async with self._room:
            told: asyncio.Future[CutwaterError | None] = loop.create_future()

            def acknowledged(failure: CutwaterError | None) -> None:
                loop.call_soon_threadsafe(lambda: None if told.done() else told.set_result(failure))

            deadline = time.monotonic() + self._wait_s
            while not self._writer.offer(encoded, acknowledged):
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"the producer's queue is full for {self._wait_s:g} s; check the broker"
                    )
                await asyncio.sleep(_PAUSE_S)
            failure = await told
            if failure is not None:
                raise failure

    def _poll(self) -> None:
        while not self._ended.is_set():
            try:
                self._writer.poll(_POLL_S)
            except UsageError:  # the sends end by their own bound, and `flush` says why
                self._ended.wait(_POLL_S)
