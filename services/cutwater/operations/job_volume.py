"""A job's volume so far from its own topics: bytes per row and rows per event."""

from __future__ import annotations

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.core.checks.capacity import RECORD_BYTES
from cutwater.core.checks.plan import Measurements
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.operations.topic_sample import sample

RECORDS_MAX = 500
MILESTONES_MAX = 50


def measure(cluster: Cluster, job: str, generation: Generation) -> Measurements | None:
    """Measure the newest records; return None if there are none. Raises CutwaterError like any read."""
    found = sample(cluster, topics.changelog(job, generation), RECORDS_MAX)
    if not found:
        return None
    newest = [one for one, _ in commit_stream.milestones(cluster, job, limit=MILESTONES_MAX)]
    events = sum(one.events for one in newest)
    return Measurements(
        row_bytes=RECORD_BYTES + sum(one.size for one in found) / len(found),
        sampled=len(found),
        rows_per_event=sum(one.rows for one in newest) / events if events else None,
    )
