"""Retention of earlier generations, that is, of their changelogs, checkpoints and seeds.

A generation that was taken over never continues, but its data is still read: by a generation that starts from one
of its milestones, by an output that has not moved on, by a restore of its snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from cutwater.core.generations.candidates import Candidates
from cutwater.core.protocol.generation import Generation


class GenerationFacts(NamedTuple):
    """The facts about a job's generations."""

    promoted: Generation
    since: Generation | None
    """The generation that was promoted at `since_ms`; None if unknown."""
    since_ms: int
    """The start of the time for which generations are kept."""
    known: Candidates
    parents: Mapping[Generation, Generation]
    """By claimed generation, the parent's generation."""
    output: Generation | None = None
    """The generation whose milestone the output holds completely."""
    snapshots: Mapping[str, int] = {}
    """Known number of kept snapshots by generation id."""
    arrived: Set[Generation] = frozenset()
    """Generations whose changelogs hold milestones that a mirror announced here."""
    keep_forks: bool = True
    """Whether generations that may be forks of another region's line stay."""


def retention_reason(generation: Generation, now: GenerationFacts) -> str | None:
    """Return why a generation must stay; None if nothing needs it."""
    if generation == now.promoted:
        return "it is promoted"
    if _coming(generation, now):
        return "it is a candidate"
    for child, parent in now.parents.items():
        if parent == generation and (child == now.promoted or _coming(child, now)):
            return f"{child} was started from one of its milestones"
    if not _was_replaced(generation, now):
        return "it was replaced too recently (CUTWATER_KEEP_GENERATIONS_HOURS)"
    return _read(generation, now)


def is_superseded(generation: Generation | None, promoted: Generation | None) -> bool:
    """Return whether a later one was promoted: then nothing writes its changelog, and its region may remove it."""
    return generation is not None and promoted is not None and generation.number < promoted.number


def _read(generation: Generation, now: GenerationFacts) -> str | None:
    """Return which reader may still need it."""
    if now.output is not None and now.output.number <= generation.number < now.promoted.number:
        return f"the output has not moved on from {now.output}"
    if generation in now.arrived:
        return "a mirror has announced milestones on its changelog"
    if now.keep_forks and (back := _went_back(generation, now)):
        return (
            f"{back} came back from another region and may have left a fork of it (--with-forks removes it, too)"
        )
    if count := now.snapshots.get(str(generation), 0):
        return f"{count} snapshots of it are kept (--with-snapshots removes them, too)"
    return None


def _went_back(generation: Generation, now: GenerationFacts) -> Generation | None:
    """Return a later generation here that continues another region's line, after or beside this one's."""
    for later, candidate in now.known.by_id.items():
        claim = candidate.claim
        if candidate.open and claim.origin and claim.rewinds_to and later.number > generation.number:
            return later
    return None


def _coming(generation: Generation, now: GenerationFacts) -> bool:
    """Return whether it is a candidate that may still be promoted."""
    candidate = now.known.by_id.get(generation)
    return generation.number > now.promoted.number and candidate is not None and candidate.open


def _was_replaced(generation: Generation, now: GenerationFacts) -> bool:
    """Return whether it was replaced before `since_ms`: each promotion ends all lower numbers."""
    if generation.number < now.promoted.number:
        return now.since is not None and generation.number < now.since.number
    candidate = now.known.by_id.get(generation)
    return candidate is not None and not candidate.open and candidate.withdrawn_ms < now.since_ms
