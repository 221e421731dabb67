"""What a job has written so far: bytes per row and rows per event, read off its own topics."""

from __future__ import annotations

from cutwater.adapters import streams
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.sampling import sample
from cutwater.core import topics
from cutwater.core.estimate import RECORD_BYTES
from cutwater.core.generations import Generation
from cutwater.core.plan import Measured

RECORDS_MAX = 500
MILESTONES_MAX = 50


def measure(cluster: Cluster, job: str, generation: Generation) -> Measured | None:
    """From the newest records; None where the job has written none. Raises CutwaterError like any read."""
    found = sample(cluster, topics.changelog(job, generation), RECORDS_MAX)
    if not found:
        return None
    newest = [one for one, _ in streams.milestones(cluster, job, limit=MILESTONES_MAX)]
    events = sum(one.events for one in newest)
    return Measured(
        row_bytes=RECORD_BYTES + sum(one.size for one in found) / len(found),
        sampled=len(found),
        rows_per_event=sum(one.rows for one in newest) / events if events else None,
    )
