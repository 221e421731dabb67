"""Guard of a resync: a copy may not be deleted while a generation here depends on it.

A generation that continued from another region reads that region's events from a copy, and started from the rows
of a copied changelog. Its cuts and Spark's offsets refer to this copy: in a recreated one they are other events.

Before its promotion, its claim also depends on the arrivals, which are deleted with the copy of any topic: a
repeated failover finds the claim by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol.records import Claim, Milestone
from cutwater.core.util.timestamps import iso


def require_unread(
    target: str,
    origin: str,
    at_work: Milestone | None,
    coming: Iterable[Claim],
    parent_of: Callable[[Claim], Milestone],
) -> None:
    """Raise UsageError if a copy, or data that is deleted with it, is in use here.

    `target`: the copy's name here. `origin`: the region that it is copied from. `at_work`: this region's newest
    milestone; None without one, or after the job was released. `coming`: the claims that may still be promoted.
    `parent_of`: returns a claim's parent milestone with its cuts in this region's offsets.
    """
    if at_work is not None and any(place.topic == target for place, _ in at_work.source_cut):
        raise UsageError(
            f"{at_work.generation} is running here and reads {target}: in a recreated copy its offsets would be "
            "other events. If the job continues in another region, end it here first ('cutwater release --to "
            "REGION'). Nothing was deleted"
        )
    for claim in coming:
        if claim.origin == origin:
            raise UsageError(
                f"{claim.generation} was claimed here from an arrival of {origin}, and a resync deletes all "
                "arrivals: first run the same 'cutwater failover' or 'switchover' again until it is promoted, or "
                f"'cutwater generation abort {claim.generation}'. Nothing was deleted"
            )
        _require_not_begun_with(target, claim, parent_of(claim))


def _require_not_begun_with(target: str, claim: Claim, parent: Milestone) -> None:
    if any(place.topic == target for cut in (parent.source_cut, parent.changelog_cut) for place, _ in cut):
        raise UsageError(
            f"{claim.generation} was claimed here and starts from records in {target}: wait until it is "
            f"promoted, or 'cutwater generation abort {claim.generation}' first. Nothing was deleted"
        )


def require_settled(origin: str, renewed: Mapping[str, int]) -> None:
    """Raise UnavailableError while a resync of an origin's copies is in progress or was interrupted.

    Positions, arrivals and copies are inconsistent meanwhile, so no mirror copies or announces anything.
    `renewed`: start time (ms) by the origin's topic.
    """
    if renewed:
        raise UnavailableError(
            f"a resync of {format_resyncs(renewed)} from {origin} is in progress: wait for it to finish. If it "
            "was interrupted: run 'cutwater mirror resync --withdraw' (possible while no position has been "
            f"deleted), or run 'cutwater mirror resync' again (only while {origin} is up)"
        )


def format_resyncs(renewed: Mapping[str, int]) -> str:
    """Format the copies in resync with their start times."""
    return ", ".join(f"{topic} (since {iso(at_ms)})" for topic, at_ms in sorted(renewed.items()))
