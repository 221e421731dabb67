"""A publisher for tests, in a thread or as a process of its own, and what plain consumers see of its output."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.value_headers import OutputHeaders
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.client import CommittedMilestone, committed
from cutwater.core.job.job import Job, Output
from cutwater.core.output.position import End
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.bulk_load import BULK_RECORDS
from cutwater.operations.correction_order import CorrectionOrders
from cutwater.publisher.handover.preload import BackgroundPreload
from cutwater.publisher.handover.state_stores import StateStores
from cutwater.publisher.metrics import Metrics
from cutwater.publisher.publisher import Publisher
from cutwater.publisher.sources.changed_rows import has_store, source_of
from cutwater.publisher.transaction import OutputWriter
from cutwater.views.changelog.milestone_rows import PART_BYTES
from cutwater.views.changelog.range_reader import Ranges
from support.views.changelogs import GENERATION, HOUR_MS, Rows, until


def create(cluster: Cluster, job: Job) -> None:
    """The topics that a publisher needs."""
    ensure_topics(cluster, topics.generation_topics(job.name, GENERATION, job.shards.partitions, job.output))


def finals(job: Job) -> Job:
    """The same job with `output.mode: final`."""
    return replace(job, output=Output(mode="final"))


def in_mode(job: Job, mode: str) -> Job:
    """The job as it is, or with finals."""
    return finals(job) if mode == "final" else job


def make(
    cluster: Cluster,
    job: Job,
    folder: Path,
    part_rows: int = 100_000,
    clock: Callable[[], int] = now_ms,
    headers: OutputHeaders | None = None,
    part_bytes: int = PART_BYTES,
    generation: Generation = GENERATION,
    least_records: int = BULK_RECORDS,
    ahead: bool = False,
    orders: CorrectionOrders | None = None,
) -> Publisher:
    """A publisher that is not running yet."""

    segment = HOUR_MS if job.output.mode == "final" else None
    states = StateStores(folder, job, segment, lasting=has_store(job), least_records=least_records)

    def source(ranges: Ranges, generation: Generation) -> Any:
        return source_of(job, lambda: states.open(generation), ranges, clock, part_rows, part_bytes)

    log = structlog.get_logger()
    return Publisher(
        cluster,
        job,
        generation,
        source,
        states,
        Metrics(),
        log,
        part_rows,
        clock,
        part_bytes=part_bytes,
        headers=headers,
        ahead=BackgroundPreload(cluster, job, states, log, clock, least_records, look_s=0.05) if ahead else None,
        orders=orders,
    )


@contextmanager
def publishing(cluster: Cluster, job: Job, folder: Path, **options: Any) -> Iterator[list[BaseException]]:
    """A running publisher; ended, and its error raised, when the block is left. Yields the list of errors."""
    create(cluster, job)
    publisher = make(cluster, job, folder, **options)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            publisher.run()
        except BaseException as error:
            errors.append(error.with_traceback(None))  # its frames would keep the store open

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield errors
    finally:
        publisher.stop()
        thread.join(30)
        assert not thread.is_alive()
        if errors:
            raise errors[0]


class PublisherProcess:
    """`python -m cutwater.publisher`, to be killed."""

    def __init__(self, cluster: Cluster, job_file: Path, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "publisher.log"
        env = {"CUTWATER_BOOTSTRAP_SERVERS": cluster.bootstrap, "CUTWATER_DATA_DIR": str(folder)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cutwater.publisher", str(job_file)],
                env={**os.environ, **env},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def kill(self) -> int:
        """kill -9; returns the exit code, which tests assert on: the kill must have happened."""
        self.process.kill()
        return self.process.wait(20)


def crash_at_write(patch: pytest.MonkeyPatch, number: int) -> Callable[[], int]:
    """The publisher's write of this number ends it. Returns a function that counts the writes so far."""
    writes, real = 0, OutputWriter.write

    def dying(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal writes
        writes += 1
        if writes == number:
            raise KeyboardInterrupt
        return real(self, *args, **options)

    patch.setattr(OutputWriter, "write", dying)
    return lambda: writes


def pieces(milestone: CommittedMilestone) -> Rows:
    """The changes of a milestone as tests of views write them."""
    return {(one.key, one.window_start_ms): int(one.values["pieces"]) for one in milestone.changes}


def read(cluster: Cluster, job: Job, up_to: int, **options: Any) -> list[CommittedMilestone]:
    """Milestones from `committed()` until sequence `up_to`."""
    found: list[CommittedMilestone] = []
    for milestone in committed(job, cluster, idle_s=60, **options):
        found.append(milestone)
        if milestone.token.sequence >= up_to:
            return found
    raise AssertionError(f"waited in vain for sequence {up_to}; got {[str(one.token) for one in found]}")


def plain(cluster: Cluster, job: Job) -> list[dict[str, Any]]:
    """Every row that a plain `read_committed` consumer finds on the output, as its schema says; no end markers."""
    codec, rows = Codec(job.output_schema), []
    for _, key, value in records(cluster, job):
        if key is not None:
            rows.append(codec.decode(value))
            assert key.decode() == rows[-1]["key"]
    return rows


def records(cluster: Cluster, job: Job) -> Iterator[tuple[int, bytes | None, bytes]]:
    """Partition, key and value of every record that a `read_committed` consumer finds on the output."""
    consumer, topic = make_consumer(cluster), topics.output(job.name)
    try:
        for partition in range(job.shards.partitions):
            low, high = bounds(consumer, topic, partition)
            for message in read_range(consumer, topic, partition, low, high) if low < high else ():
                yield partition, message.key(), message.value()
    finally:
        consumer.close()


def ends(cluster: Cluster, job: Job) -> list[End]:
    """Every end marker on an output in Avro."""
    found = [protocol_records.decode(value) for _, key, value in records(cluster, job) if key is None]
    return [end for end in found if isinstance(end, End)]


def wait_published(cluster: Cluster, job: Job, sequence: int) -> None:
    """Until the output holds the end of a milestone in every partition."""

    def there() -> bool:
        return any(one.token.sequence >= sequence for one in committed(job, cluster, idle_s=0.5))

    until(there, f"sequence {sequence} on the output")
