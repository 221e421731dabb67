"""Which earlier generations may be removed: their changelogs, checkpoints and seeds.

A generation that another one took over from never comes back, but what it wrote is still read: by who starts from
one of its milestones, by an output that has not gone on, by whoever restores a snapshot of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from cutwater.core.generations.candidates import Candidates
from cutwater.core.protocol.generation import Generation


class Standing(NamedTuple):
    """What is known of a job's generations."""

    promoted: Generation
    since: Generation | None
    """The one that was promoted when the time began for which generations are kept; None where none is known."""
    since_ms: int
    """When that was."""
    known: Candidates
    parents: Mapping[Generation, Generation]
    """Of each claimed generation, the one whose milestone it was started from."""
    output: Generation | None = None
    """The one whose milestone the output holds whole."""
    snapshots: Mapping[str, int] = {}
    """How many snapshots of each are kept, by its id, as far as is known."""
    arrived: Set[Generation] = frozenset()
    """Those whose changelogs hold what a mirror has announced here."""
    keep_forks: bool = True
    """Does what another region's line may have gone back behind stay?"""


def retained(generation: Generation, now: Standing) -> str | None:
    """Why a generation must stay; None where nothing needs it any more."""
    if generation == now.promoted:
        return "it is promoted"
    if _coming(generation, now):
        return "it is a candidate"
    for child, parent in now.parents.items():
        if parent == generation and (child == now.promoted or _coming(child, now)):
            return f"{child} was started from one of its milestones"
    if not _left(generation, now):
        return "it was not left long enough ago (CUTWATER_KEEP_GENERATIONS_HOURS)"
    return _read(generation, now)


def left_behind(generation: Generation | None, promoted: Generation | None) -> bool:
    """Was another one promoted since? Then nobody writes its changelog, and its region may remove it."""
    return generation is not None and promoted is not None and generation.number < promoted.number


def _read(generation: Generation, now: Standing) -> str | None:
    """Who may still read what it wrote."""
    if now.output is not None and now.output.number <= generation.number < now.promoted.number:
        return f"the output has not gone on from {now.output}"
    if generation in now.arrived:
        return "a mirror has announced milestones that stand on its changelog"
    if now.keep_forks and (back := _went_back(generation, now)):
        return (
            f"{back} came back from another region and may have left a fork of it (--with-forks removes it, too)"
        )
    if count := now.snapshots.get(str(generation), 0):
        return f"{count} snapshots of it are kept (--with-snapshots removes them, too)"
    return None


def _went_back(generation: Generation, now: Standing) -> Generation | None:
    """A later generation of this region that goes on from another region's line, behind or beside this one's."""
    for later, candidate in now.known.by_id.items():
        claim = candidate.claim
        if candidate.open and claim.origin and claim.rewinds_to and later.number > generation.number:
            return later
    return None


def _coming(generation: Generation, now: Standing) -> bool:
    """Is it a candidate that may still be promoted?"""
    candidate = now.known.by_id.get(generation)
    return generation.number > now.promoted.number and candidate is not None and candidate.open


def _left(generation: Generation, now: Standing) -> bool:
    """Numbers rise with every promotion: what was promoted at a time had ended all those below it."""
    if generation.number < now.promoted.number:
        return now.since is not None and generation.number < now.since.number
    candidate = now.known.by_id.get(generation)
    return candidate is not None and not candidate.open and candidate.withdrawn_ms < now.since_ms
