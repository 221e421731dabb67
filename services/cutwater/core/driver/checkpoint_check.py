"""May a driver go on from its checkpoint? A comparison of the checkpoint with the stream.

Spark writes `offsets/N` before an epoch, the driver barrier N in it, Spark `commits/N` after it, and
commit-signal milestone N after that. So planned >= barrier >= committed >= milestone, each at most one apart
where the protocol allows it; anything else means that the checkpoint is not the one that wrote the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.errors import DivergenceError
from cutwater.core.protocol.cuts import Cut

NONE = -1


@dataclass(frozen=True)
class Standing:
    """The newest epoch in each place; -1 where there is none."""

    planned: int
    """`offsets/N` of the checkpoint."""
    committed: int
    """`commits/N` of the checkpoint."""
    barrier: int
    milestone: int

    @property
    def next_epoch(self) -> int:
        """The epoch that Spark runs next: the planned but uncommitted one again, else a new one."""
        return self.committed + 1


def lagging(standing: Standing) -> str | None:
    """Why the checkpoint is older than the stream; None when it is not.

    Sound while another driver still writes, too, if stream and checkpoint are read in this order: both only grow.
    """
    if standing.planned < standing.barrier:
        return f"the checkpoint ends at epoch {standing.planned}, and the stream has barrier {standing.barrier}"
    if standing.committed < standing.milestone:
        return f"the checkpoint has committed {standing.committed}, and the stream milestone {standing.milestone}"
    return None


def contradiction(standing: Standing) -> str | None:
    """Why the checkpoint cannot be the one that wrote the stream; None when it can. Needs older drivers fenced."""
    reason = lagging(standing)
    if reason:
        return reason
    if standing.committed > standing.barrier:
        return f"the checkpoint has committed {standing.committed}, and the newest barrier is {standing.barrier}"
    if standing.barrier > standing.committed + 1:
        return f"the stream has barrier {standing.barrier}, and the checkpoint has committed {standing.committed}"
    return None


def require_match(job: str, standing: Standing, planned: Cut | None, told: Cut | None, alone: bool = True) -> None:
    """Raise DivergenceError when checkpoint and stream contradict each other.

    `alone`: older drivers are fenced.
    `planned` is the source cut in `offsets/N` of the newest barrier's epoch, None without that file; `told` the
    one in that barrier, None without any.
    """
    reason = contradiction(standing) if alone else lagging(standing)
    if reason is None and told is not None and planned is None:
        # As where the folder was removed under a driver: Spark makes it anew for what it plans next.
        reason = f"the plan of epoch {standing.barrier} is gone, and one of epoch {standing.planned} is there"
    elif reason is None and planned != told:
        reason = f"epoch {standing.barrier} reads other events in the checkpoint than in its barrier"
    if reason:
        raise DivergenceError(
            f"job {job}: the checkpoint does not belong to this commit stream: {reason}. It was rolled back, "
            "lost or mixed up. Put the right checkpoint back, or start a new generation from the last milestone."
        )
