"""May a job's first generation begin in a region? Not where another region's job is only copied.

Nothing fences two clusters from each other: both would commit the job, and nobody would know. Where regions
aggregate events of their own side by side, each has begun before it looked at the other: its commit stream holds
a milestone, or a driver of its first generation has written. Or somebody said, by name, beside which it begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidates
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import Mirrored


def copied_from(positions: Iterable[Mirrored]) -> set[str]:
    """The regions of whose topics anything is copied here.

    Not of the commit stream alone: its copy may have been given up, or belong to a process of the mirror that does
    not run, and where events come from there is a job, or will be.
    """
    return {one.origin for one in positions if one.records}


def require_not_copied(
    job: str, generation: Generation, origins: Collection[str], known: Candidates, beside: Collection[str] = ()
) -> None:
    """Raise UsageError where a first generation would be a second job of one name.

    Asked where the generation has not begun. `origins`: the regions of which topics are copied here; `known`: all
    that was ever claimed here; `beside`: the regions that it is to begin beside, as somebody has said.
    """
    refused = f"a first generation of {job} may not begin in region {generation.region}"
    for candidate in known.by_id.values():
        claim = candidate.claim
        if candidate.open and claim.origin:
            raise UsageError(
                f"{refused}: {claim.generation} was claimed here, to go on with the job of region {claim.origin}. "
                f"Start with CUTWATER_GENERATION={claim.generation}, or give it up: "
                f"'cutwater generation abort {claim.generation}'"
            )
    if unnamed := set(origins) - set(beside):
        named = " and ".join(sorted(unnamed))
        raise UsageError(
            f"{refused}: the job is copied here from {named}, and nothing of it has begun here, so both would "
            f"commit it and nobody would know. To go on with the job here: 'cutwater failover' where {named} is "
            f"dead, else 'cutwater switchover'. To aggregate events of this region's own beside {named}: start "
            f"with CUTWATER_BEGIN_BESIDE={','.join(sorted(origins))} (docs/GLOBAL.md)"
        )
