"""Guard for a job's first generation: it may not start in a region that only copies another region's job.

Nothing fences two clusters from each other: both would commit the job without notice. If regions aggregate their
own events side by side, each started before it copied from the other: its commit stream holds a milestone, or a
driver of its first generation has written. Otherwise the operator names the regions beside which it starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidates
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import Mirrored


def copied_from(positions: Iterable[Mirrored]) -> set[str]:
    """Return the regions of which any topic is copied here.

    The commit stream alone is not enough: its copy may have been given up, or belong to a mirror process that does
    not run. A region whose events are copied has the job, or will have it.
    """
    return {one.origin for one in positions if one.records}


def require_not_copied(
    job: str, generation: Generation, origins: Collection[str], known: Candidates, beside: Collection[str] = ()
) -> None:
    """Raise UsageError if a first generation, not started yet, would be a second job of the same name.

    `origins`: the regions of which topics are copied here. `known`: all claims ever made here. `beside`: the
    regions beside which the operator lets it start.
    """
    refused = f"a first generation of {job} may not start in region {generation.region}"
    for candidate in known.by_id.values():
        claim = candidate.claim
        if candidate.open and claim.origin:
            raise UsageError(
                f"{refused}: {claim.generation} was claimed here to continue the job of region {claim.origin}. "
                f"Start with CUTWATER_GENERATION={claim.generation}, or abort it: "
                f"'cutwater generation abort {claim.generation}'"
            )
    if unnamed := set(origins) - set(beside):
        named = " and ".join(sorted(unnamed))
        raise UsageError(
            f"{refused}: the job is copied here from {named}, but has not started here: both regions would "
            f"commit it unnoticed. To continue the job here: 'cutwater failover' if {named} is dead, otherwise "
            f"'cutwater switchover'. To aggregate this region's own events beside {named}: start with "
            f"CUTWATER_BEGIN_BESIDE={','.join(sorted(origins))} (docs/GLOBAL.md)"
        )
