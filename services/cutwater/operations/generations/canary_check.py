"""The check before a canary is claimed: its rows can be compared with the promoted generation's."""

from __future__ import annotations

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import promoted
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.core.canary.row_comparison import CanaryRows
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.operations.generations.redefinition import Redefined


def require_comparable(cluster: Cluster, own: Job, redefined: Redefined | None, tolerance: float) -> CanaryRows:
    """Return how the rows are compared. `own`: the job of this process's job file.

    Raises UsageError if there is no milestone yet, no row of both, or the job cannot be compared.
    """
    last = promoted(cluster, own.name)
    if last is None:
        raise UsageError(f"job {own.name} has no milestone yet, and a canary can only be started from one")
    live = GenerationJobs.on(cluster, own).at(last)
    if live.attached:
        raise UsageError(
            f"{own.name} is attached to a query of your own: its epochs cannot be ended where another one's end. "
            "Start a generation, and compare two milestones with 'cutwater diff'"
        )
    return CanaryRows(live, redefined.job if redefined else live, tolerance)
