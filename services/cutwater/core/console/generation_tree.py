"""The generations of a job as a tree: those on the commit stream, and those that were claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cutwater.core.console.held_promotions import hold_of
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.generations.holds import may_be_held
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

REIGNS_MAX = 1_000
"""The most generations that are remembered, the newest ones."""
CURRENT, REPLACED, CANDIDATE, PROMOTING, ABORTED = "current", "replaced", "candidate", "promoting", "aborted"


@dataclass(frozen=True)
class Reign:
    """A generation's milestones on the commit stream, as far as they are read."""

    first_sequence: int
    last_sequence: int
    first_ms: int
    last_ms: int
    milestones: int
    rewinds_to: int
    partitions: int


class Reigns:
    """A fold over the commit stream: which generation wrote which part of it."""

    def __init__(self) -> None:
        self.by_id: dict[Generation, Reign] = {}

    def take(self, one: Milestone) -> None:
        """Add the next milestone of the stream; one that was read before changes nothing."""
        known = self.by_id.get(one.generation)
        if known is None:
            self.by_id[one.generation] = Reign(
                one.sequence,
                one.sequence,
                one.committed_ms,
                one.committed_ms,
                1,
                one.rewinds_to,
                len(one.changelog_cut),
            )
            if len(self.by_id) > REIGNS_MAX:
                del self.by_id[next(iter(self.by_id))]
        elif one.sequence > known.last_sequence:
            self.by_id[one.generation] = replace(
                known,
                last_sequence=one.sequence,
                last_ms=one.committed_ms,
                milestones=known.milestones + 1,
            )

    @property
    def current(self) -> Generation | None:
        return next(reversed(self.by_id), None)


def tree(
    reigns: Mapping[Generation, Reign],
    candidates: Candidates,
    parents: Mapping[Generation, Milestone],
    now_ms: int,
) -> dict[str, Any]:
    """Return the generations, each with its parent, oldest first. `parents`: the claims' parent milestones.
    `now_ms`: the time at which a hold counts."""
    current = next(reversed(list(reigns)), None)
    every = sorted({*reigns, *candidates.by_id, *(one.generation for one in parents.values())})
    return {
        "current": str(current) if current else None,
        "generations": [
            _node(one, reigns.get(one), candidates.by_id.get(one), parents.get(one), current, now_ms)
            for one in every
        ],
    }


def _node(
    generation: Generation,
    reign: Reign | None,
    candidate: Candidate | None,
    parent: Milestone | None,
    current: Generation | None,
    now_ms: int,
) -> dict[str, Any]:
    return {
        "id": str(generation),
        "number": generation.number,
        "region": generation.region,
        "state": _state(generation, reign, candidate, current),
        "parent": str(parent.generation) if parent else None,
        "parent_token": str(parent.token) if parent else None,
        "reign": None if reign is None else _reign(reign),
        "claim": None if candidate is None else _claim(candidate, parent, now_ms),
    }


def _state(
    generation: Generation, reign: Reign | None, candidate: Candidate | None, current: Generation | None
) -> str:
    if generation == current:
        return CURRENT
    if reign is not None or candidate is None:
        return REPLACED
    if not candidate.open:
        return ABORTED
    if current is not None and generation.number < current.number:
        return REPLACED  # a later one was promoted: this one never will be
    return PROMOTING if candidate.promoting else CANDIDATE


def _reign(one: Reign) -> dict[str, Any]:
    return {
        "first_sequence": one.first_sequence,
        "last_sequence": one.last_sequence,
        "first_ms": one.first_ms,
        "last_ms": one.last_ms,
        "milestones": one.milestones,
        "rewinds_to": one.rewinds_to or None,
        "partitions": one.partitions,
    }


def _claim(one: Candidate, parent: Milestone | None, now_ms: int) -> dict[str, Any]:
    claim, newest = one.claim, one.newest
    read = max(0, newest.source_cut.records_since(parent.source_cut)) if newest and parent else None
    return {
        "at_ms": claim.at_ms,
        "reason": claim.reason,
        "partitions": claim.partitions,
        "rewinds_to": claim.rewinds_to or None,
        "origin": claim.origin or None,
        "epoch": newest.epoch if newest else None,
        "watermark_ms": newest.watermark_ms if newest else None,
        "events_since_parent": read,
        "counts_late_events": one.reopening is not None,
        "withdrawn": one.withdrawn,
        "decision": None if one.decision is None else one.decision.keeps,
        "may_be_held": may_be_held(claim),
        "hold": hold_of(one, now_ms),
    }
