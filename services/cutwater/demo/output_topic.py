"""The rows of the demonstration's output topic, read by a plain consumer and by `committed()`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.client import Change, committed
from cutwater.client.decoding import OutputDecoder
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.demo.flights import CLOSING_AIRPORT
from cutwater.views.query.presenter import plain

WAIT_S = 60.0

Fold = dict[tuple[str, int], Change]


def read_rows(fold: Fold) -> list[dict[str, Any]]:
    """Return the rows for the comparison, without those of the closing event."""
    return [
        {"airport": airport, "window_start_ms": start_ms}
        | {name: plain(value) for name, value in change.values.items()}
        for (airport, start_ms), change in fold.items()
        if airport != CLOSING_AIRPORT
    ]


def by_plain_consumer(cluster: Cluster, job: Job) -> Fold:
    """Return the newest record of each row, as any `read_committed` consumer reads it; end markers have no key."""
    decoder = OutputDecoder(job)
    values = (message.value() for message in _messages(cluster, job) if message.key() is not None)
    return _folded(decoder.change(value) for value in values)


def by_milestone(cluster: Cluster, job: Job) -> tuple[Fold, list[str]]:
    """Return the same, read by `committed()` up to the newest milestone, and the incomplete milestones."""
    rows_of = {one.sequence: one.rows for one, _ in commit_stream.milestones(cluster, job.name)}
    fold: Fold = {}
    faults, before = [], 0
    for milestone in committed(job, cluster, idle_s=WAIT_S):
        first, sequence = milestone.first_sequence, milestone.token.sequence
        if first != before + 1:
            faults.append(f"sequence {first} follows {before}")
        if first == sequence and len(milestone.changes) != rows_of[sequence]:
            faults.append(f"{milestone.token} has {len(milestone.changes)} of {rows_of[sequence]} rows")
        fold |= _folded(milestone.changes)
        before = sequence
        if sequence >= max(rows_of):
            return fold, faults
    return fold, [*faults, f"the output ends at sequence {before} of {max(rows_of)}"]


def _folded(changes: Any) -> Fold:
    return {(change.key, change.window_start_ms): change for change in changes}


def _messages(cluster: Cluster, job: Job) -> Iterator[Any]:
    consumer = make_consumer(cluster)
    try:
        for partition in range(job.shards.partitions):
            low, high = bounds(consumer, topics.output(job.name), partition)
            yield from read_range(consumer, topics.output(job.name), partition, low, high) if low < high else ()
    finally:
        consumer.close()
