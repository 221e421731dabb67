"""What *watch* knows of a job, as values, and the drift that follows from it. `job_status_fold` folds records into
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alerts import Known
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Milestone

NONE = -1
"""Before the first epoch."""


@dataclass(frozen=True)
class Reader:
    """How far somebody has come who reads the commit stream: the publisher, or the view."""

    sequence: int = 0
    moved_ms: int = 0
    """When it came there."""
    behind_ms: int | None = None
    """Since when it is behind, where that is later than `moved_ms`."""

    def since_ms(self) -> int:
        return max(self.moved_ms, self.behind_ms or 0)


@dataclass(frozen=True)
class Bucket:
    """Sums of the milestones committed in one slice of time."""

    begin_ms: int
    rejected: int = 0
    """Without those that have no value: a compacted topic's deletions are nobody's mistake."""
    skew_ms: int = 0
    usable: int = 0
    """Events that are no dead letters, late ones included."""
    late: int = 0
    """(event, window) pairs that came too late."""


@dataclass(frozen=True)
class Sample:
    """The drift at a moment."""

    at_ms: int
    epochs: int
    waiting: int | None


@dataclass(frozen=True)
class Watched:
    """All that is known of one job's generation."""

    job: str
    generation: Generation
    bucket_ms: int = 60_000
    reads: Mapping[str, int] = field(default_factory=dict)
    """By topic the next offset: what is below it has been taken."""
    attempt: int = 0
    spoke_ms: int = 0
    """When the driver last wrote a record; 0 for never."""
    processed: Barrier | None = None
    confirmed: int = NONE
    """The newest epoch of which the driver has said that the commit log holds it."""
    owed_ms: int = 0
    """Since when such an epoch has had no milestone, while it has none and none comes."""
    idle: bool = False
    """Was the driver's last word that nothing is new?"""
    foreign_ms: int = 0
    """When a driver of an earlier attempt last wrote behind the start of a later one; 0 for never."""
    foreign_attempt: int = 0
    committed: Milestone | None = None
    buckets: tuple[Bucket, ...] = ()
    publisher: Reader = field(default_factory=Reader)
    view: Reader | None = None
    """None where nobody asks it."""
    waiting: int | None = None
    """Events at the source that no barrier covers; None where the source's end is not known."""
    waiting_ms: int = 0
    """Since when, as far as it was observed."""
    hidden: int = 0
    """Offsets at the source that nobody reads yet, for a transaction is open in front of them."""
    samples: tuple[Sample, ...] = ()
    alerts: Known = field(default_factory=dict)
    successor: Generation | None = None
    """The generation that was promoted behind this one: what is known here is of the past."""
    unreadable: int = 0
    """Records that are of no schema known here: left out, and counted."""

    @property
    def sequence(self) -> int:
        """Of the newest milestone; 0 before the first."""
        return self.committed.sequence if self.committed else 0


@dataclass(frozen=True)
class Drift:
    """How far what is committed, and what is published, is behind what is processed."""

    epochs: int
    """Epochs with a barrier and no milestone."""
    events: int
    """Offsets of the source between the newest milestone's cut and the newest barrier's."""
    ms: int
    """Time between the barriers of the two."""
    waiting: int | None
    """Events that no barrier covers yet; None where unknown."""
    unpublished: int
    """Milestones that the output does not hold."""


def drift(state: Watched) -> Drift:
    """Never negative: a topic may be read a little ahead of another."""
    processed, committed = state.processed, state.committed
    unpublished = max(0, state.sequence - state.publisher.sequence)
    if processed is None:
        return Drift(0, 0, 0, state.waiting, unpublished)
    epochs = max(0, processed.epoch - (committed.epoch if committed else NONE))
    if not epochs:
        return Drift(0, 0, 0, state.waiting, unpublished)
    events = max(0, processed.source_cut.records_since(committed.source_cut if committed else Cut()))
    ms = max(0, processed.written_ms - (committed.written_ms if committed else processed.epoch_started_ms))
    return Drift(epochs, events, ms, state.waiting, unpublished)


def progress_ms(state: Watched, part: str) -> int:
    """When a part last did its work."""
    if part == alerts.DRIVER:
        return state.processed.written_ms if state.processed else 0
    if part == alerts.SIGNAL:
        return state.committed.committed_ms if state.committed else 0
    reader = {alerts.PUBLISHER: state.publisher, alerts.VIEW: state.view}.get(part)
    return reader.moved_ms if reader and reader.sequence else 0
