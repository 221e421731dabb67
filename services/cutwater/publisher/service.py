"""The publisher: follows the commit stream and publishes each milestone. The composition root of the service.

python -m cutwater.publisher JOBFILE
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.value_headers import output_headers_of
from cutwater.adapters.fetch.native_rows import usable
from cutwater.adapters.http.metrics_server import serve
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.startup_wait import await_brokers
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.adapters.topics.recovery_log import account, record_load
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.operations.correction_order import CorrectionOrders
from cutwater.operations.service_main import run_service
from cutwater.publisher.handover.preload import BackgroundPreload
from cutwater.publisher.handover.state_stores import JobOf, StateStores
from cutwater.publisher.metrics import Metrics
from cutwater.publisher.publisher import Publisher
from cutwater.publisher.sources.changed_rows import Source, has_store, source_of, store_segment_ms
from cutwater.views.bulk.loader import workers_by_default
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.store.key_layout import segment_ms


class JobPublishers:
    """The publishers of a job, one after the other: a generation with another job file has one of its own."""

    def __init__(self, make: Callable[[Job, Generation], Publisher], job: Job, generation: Generation) -> None:
        self._make = make
        self._publisher = make(job, generation)
        self._stop = threading.Event()

    def stop(self, *_signal: object) -> None:
        self._stop.set()
        self._publisher.stop()

    def run(self) -> None:
        """Publish until stopped. Raise as `Publisher.run`."""
        while not self._stop.is_set():
            self._publisher.run()
            other = self._publisher.followed_by
            if other is None:
                return
            reach("other-job")
            self._publisher = self._make(other.job, other.generation)


def _build(job: Job, settings: Settings, log: Any) -> JobPublishers:
    if job.output.mode == "none":
        raise UsageError(f"job {job.name} has no output (output.mode: none): it needs no publisher")
    cluster, generation, metrics = settings.cluster, settings.generation, Metrics()
    start = account("publisher", job.name, generation, cluster, log, metrics.registry)
    with start.step("waiting for the brokers"):
        await_brokers(cluster, settings.wait_ms / 1000, log)
    changelog = topics.changelog(job.name, generation)
    for topic in (topics.milestones(job.name), topics.published(job.name), topics.output(job.name), changelog):
        partition_count(cluster, topic)
    serve(metrics.registry, settings, "CUTWATER_PUBLISHER_PORT", log)
    jobs = GenerationJobs.on(cluster, job)
    stores = partial(_stores, settings=settings, job_of=jobs.of, segment=segment_ms(job))
    report = partial(record_load, "publisher", job.name, cluster, log)
    first = [start]

    def publisher_of(of: Job, number: Generation) -> Publisher:
        states = stores(of)

        def source(ranges: Ranges, generation: Generation) -> Source:
            return source_of(of, lambda: states.open(generation), ranges, now_ms)

        return Publisher(
            cluster,
            of,
            number,
            source,
            states,
            metrics,
            log,
            headers=output_headers_of(of, settings),
            account=first.pop() if first else account("publisher", of.name, number, cluster, log),
            ahead=BackgroundPreload(cluster, of, states, log, now_ms, report=report) if settings.preload else None,
            orders=CorrectionOrders(settings.data_dir, of.name),
            jobs=jobs,
        )

    return JobPublishers(publisher_of, job, generation)


def _stores(job: Job, settings: Settings, job_of: JobOf, segment: int) -> StateStores:
    """`segment`: the length of a time segment of stores that only a hand-over needs. It is the same for two jobs,
    so that their rows have the same order."""
    final, lasting = job.output.mode == "final", has_store(job)
    root = settings.data_dir / ("finals" if final else "windows" if lasting else "handover") / job.name
    native = settings.native and usable()
    workers = settings.restore_workers or workers_by_default()
    length = store_segment_ms(job) or segment
    return StateStores(root, job, length, lasting=lasting, workers=workers, native=native, job_of=job_of)


def main() -> int:
    return run_service("publisher", _build)
