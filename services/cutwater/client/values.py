"""The values that the client library returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cutwater.core.protocol.generation import Token


@dataclass(frozen=True)
class Change:
    """One row's value at a milestone."""

    key: str
    window_start_ms: int
    window_end_ms: int
    kind: str
    """`update` or `final`. After a rewind or a hand-over of generations, or if late events amend a closed window,
    also `correction`, a changed value; after the first two also `tombstone`, a deleted row."""
    values: dict[str, Any]
    """The measures by name; None if no event had a value, and in a tombstone."""
    key_columns: dict[str, Any] = field(default_factory=dict)
    """The key's columns by name if the job's key is a list; else empty. A UUID is a text, a null None."""


@dataclass(frozen=True)
class CommittedMilestone:
    """One complete milestone, or several that were published as one."""

    token: Token
    """Pass it as `after` to continue after this milestone."""
    first_sequence: int
    """Lower than the token's sequence if several milestones were published as one."""
    watermark_ms: int
    committed_ms: int
    """The time at which the milestone was written to the commit stream."""
    changes: tuple[Change, ...]
    """Each changed row once, with its last value."""
    rewinds_to: int = 0
    """At a rollback: the sequence of the state that the job returned to; else 0."""
