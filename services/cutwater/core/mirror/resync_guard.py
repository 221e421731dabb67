"""May the copy of a topic be given up? Not while a generation here stands on it. And who waits for the new one.

A generation that went on from another region reads that region's events as a copy, and began with the rows of a
changelog that is one. Its cuts, and Spark's own offsets, are of this very copy: in one that is made anew the same
offsets are other events, and nobody would notice.

Before it is promoted, its claim stands on the arrivals, too: a failover that is asked for again finds it by them,
and they go with the copy of any topic.
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
    """Raise UsageError where a copy is read here, or what goes with it. `target`: its name here.

    `origin`: the region that it is copied from. `at_work`: the newest milestone of this region; None without
    one, or once the job was released. `coming`: the claims of candidates that may still be promoted. `parent_of`:
    the milestone that one starts from, with its cuts as they lie here.
    """
    if at_work is not None and any(place.topic == target for place, _ in at_work.source_cut):
        raise UsageError(
            f"{at_work.generation} is at work here and reads {target}: in a copy that is made anew, its offsets "
            "are those of other events. Where the job goes on in another region, end it here first ('cutwater "
            "release --to REGION'). Nothing was deleted"
        )
    for claim in coming:
        if claim.origin == origin:
            raise UsageError(
                f"{claim.generation} was claimed here from what has arrived from {origin}, and all arrivals go "
                "with any copy: have it promoted (the same 'cutwater failover' or 'switchover' again), or "
                f"'cutwater generation abort {claim.generation}' first. Nothing was deleted"
            )
        _require_not_begun_with(target, claim, parent_of(claim))


def _require_not_begun_with(target: str, claim: Claim, parent: Milestone) -> None:
    if any(place.topic == target for cut in (parent.source_cut, parent.changelog_cut) for place, _ in cut):
        raise UsageError(
            f"{claim.generation} was claimed here, and begins with what stands in {target}: wait until it is "
            f"promoted, or 'cutwater generation abort {claim.generation}' first. Nothing was deleted"
        )


def require_settled(origin: str, renewed: Mapping[str, int]) -> None:
    """Raise UnavailableError while copies of an origin are begun anew, or where that was broken off.

    By positions, arrivals and copies as they stand meanwhile no mirror copies or announces anything. `renewed`:
    the topics of the origin, and since when (ms).
    """
    if renewed:
        raise UnavailableError(
            f"somebody begins the copy of {told(renewed)} from {origin} anew: wait until he has come to the end "
            "of it. Where it was broken off, 'cutwater mirror resync --withdraw' takes that back as long as "
            f"nothing has gone; else, and only while {origin} lives, run 'cutwater mirror resync' again"
        )


def told(renewed: Mapping[str, int]) -> str:
    """Which copies are begun anew, and since when."""
    return ", ".join(f"{topic} (since {iso(at_ms)})" for topic, at_ms in sorted(renewed.items()))
