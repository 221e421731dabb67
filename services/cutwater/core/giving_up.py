"""May the copy of a topic be given up? Not while a generation here stands on it. And who waits for the new one.

A generation that went on from another region reads that region's events as a copy, and began with the rows of a
changelog that is one. Its cuts, and Spark's own offsets, are of this very copy: in one that is made anew the same
offsets are other events, and nobody would notice.
"""

from __future__ import annotations

from collections.abc import Mapping

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations import Generation
from cutwater.core.moments import iso
from cutwater.core.records import Milestone


def require_unread(target: str, at_work: Milestone | None, coming: Mapping[Generation, Milestone]) -> None:
    """Raise UsageError where a copy is read here. `target`: its name here.

    `at_work`: the newest milestone of this region; None without one, or once the job was released. `coming`: the
    parents of candidates that may still be promoted, with their cuts as they lie here.
    """
    if at_work is not None and any(place.topic == target for place, _ in at_work.source_cut):
        raise UsageError(
            f"{at_work.generation} is at work here and reads {target}: in a copy that is made anew, its offsets "
            "are those of other events. Where the job goes on in another region, end it here first ('cutwater "
            "release --to REGION'). Nothing was deleted"
        )
    for generation, parent in coming.items():
        if any(place.topic == target for cut in (parent.source_cut, parent.changelog_cut) for place, _ in cut):
            raise UsageError(
                f"{generation} was claimed here, and begins with what stands in {target}: wait until it is "
                f"promoted, or 'cutwater generation abort {generation}' first. Nothing was deleted"
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
