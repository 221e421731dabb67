"""What the client library hands out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutwater.core.protocol.generation import Token


@dataclass(frozen=True)
class Change:
    """One row as a milestone left it."""

    key: str
    window_start_ms: int
    window_end_ms: int
    kind: str
    """`update` or `final`; after a rewind or a hand-over of generations also `correction`, which contradicts what
    was said before, or `tombstone`: the row is gone."""
    values: dict[str, Any]
    """The measures by name; None where no event had a value, and in a tombstone."""


@dataclass(frozen=True)
class CommittedMilestone:
    """One milestone, whole; or several that were published as one."""

    token: Token
    """Give its text as `after` to go on behind it."""
    first_sequence: int
    """Below the token's sequence where several milestones came as one."""
    watermark_ms: int
    committed_ms: int
    """When the milestone was written to the commit stream."""
    changes: tuple[Change, ...]
    """Each row once, by its last value."""
    rewinds_to: int = 0
    """At a rollback: the sequence whose state the job went back to; else 0."""
