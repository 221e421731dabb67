"""Comparison of a driver's checkpoint with the stream, to decide whether the driver may continue from it.

Spark writes `offsets/N` before an epoch, the driver writes barrier N in it, Spark writes `commits/N` after it, and
commit-signal writes milestone N after that. So planned >= barrier >= committed >= milestone, each at most one
apart where the protocol allows it. Anything else means that another checkpoint wrote the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.errors import DivergenceError
from cutwater.core.protocol.cuts import Cut

NONE = -1


@dataclass(frozen=True)
class NewestEpochs:
    """The newest epoch in each place; -1 for none."""

    planned: int
    """`offsets/N` of the checkpoint."""
    committed: int
    """`commits/N` of the checkpoint."""
    barrier: int
    milestone: int

    @property
    def next_epoch(self) -> int:
        """The epoch that Spark runs next: the planned but uncommitted one again, otherwise a new one."""
        return self.committed + 1


def lagging(standing: NewestEpochs) -> str | None:
    """Return why the checkpoint is older than the stream; None if it is not. Also valid while another driver
    writes, if the stream is read before the checkpoint: both only grow."""
    if standing.planned < standing.barrier:
        return f"the checkpoint ends at epoch {standing.planned}, but the stream has barrier {standing.barrier}"
    if standing.committed < standing.milestone:
        return (
            f"the checkpoint has committed {standing.committed}, but the stream has milestone {standing.milestone}"
        )
    return None


def contradiction(standing: NewestEpochs) -> str | None:
    """Return why this checkpoint cannot have written the stream; None if it can. Requires older drivers fenced."""
    reason = lagging(standing)
    if reason:
        return reason
    if standing.committed > standing.barrier:
        return f"the checkpoint has committed {standing.committed}, but the newest barrier is {standing.barrier}"
    if standing.barrier > standing.committed + 1:
        return f"the stream has barrier {standing.barrier}, but the checkpoint has committed {standing.committed}"
    return None


def require_match(
    job: str, standing: NewestEpochs, planned: Cut | None, told: Cut | None, alone: bool = True
) -> None:
    """Raise DivergenceError if checkpoint and stream contradict each other.

    `planned`: the source cut in `offsets/N` of the newest barrier's epoch, None without that file. `told`: the
    source cut in that barrier, None without a barrier. `alone`: older drivers are fenced.
    """
    reason = contradiction(standing) if alone else lagging(standing)
    if reason is None and told is not None and planned is None:
        # For example, the folder was removed under a driver: Spark creates it again for the next plan.
        reason = f"the plan of epoch {standing.barrier} is gone, but there is one of epoch {standing.planned}"
    elif reason is None and planned != told:
        reason = f"epoch {standing.barrier} reads other events in the checkpoint than in its barrier"
    if reason:
        raise DivergenceError(
            f"job {job}: the checkpoint does not belong to this commit stream: {reason}. It was rolled back, "
            "lost or mixed up. Restore the right checkpoint, or start a new generation from the last milestone."
        )
