"""The status of a job as *watch* knows it, and its drift. `job_status_fold` folds records into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alerts import Known
from cutwater.core.monitoring.disk_forecast import Disk
from cutwater.core.monitoring.history import History
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Committed, Milestone

NONE = -1
"""The epoch number before the first epoch."""


@dataclass(frozen=True)
class Reader:
    """The progress of a reader of the commit stream: the publisher or the view."""

    sequence: int = 0
    moved_ms: int = 0
    """The time when it reached `sequence`."""
    behind_ms: int | None = None
    """The time since which it is behind, if later than `moved_ms`."""

    def since_ms(self) -> int:
        return max(self.moved_ms, self.behind_ms or 0)


@dataclass(frozen=True)
class Bucket:
    """Sums of the milestones committed in one slice of time."""

    begin_ms: int
    rejected: int = 0
    """Dead letters without those that have no value: deletions of a compacted topic are no mistake."""
    skew_ms: int = 0
    usable: int = 0
    """Events that are not dead letters, late ones included."""
    late: int = 0
    """Late events."""


@dataclass(frozen=True)
class Sample:
    """The drift at one time."""

    at_ms: int
    epochs: int
    waiting: int | None


class NewestSnapshot(NamedTuple):
    """The newest snapshot of the view; of several shares the oldest one's."""

    sequence: int
    created_ms: int
    bytes: int
    """Of the view; 0 if unknown."""


@dataclass(frozen=True)
class JobStatus:
    """The known state of one generation of a job."""

    job: str
    generation: Generation
    bucket_ms: int = 60_000
    reads: Mapping[str, int] = field(default_factory=dict)
    """The next offset by topic; records below it are folded in."""
    attempt: int = 0
    spoke_ms: int = 0
    """The time of the driver's last record; 0 for none."""
    processed: Barrier | None = None
    confirmed: int = NONE
    """The newest epoch that the driver reported as committed by Spark."""
    hint: Committed | None = None
    """The newest hint of the driver that Spark's commit log holds an epoch."""
    owed_ms: int = 0
    """The time since which such an epoch lacks its milestone without a new milestone; 0: none is missing."""
    idle: bool = False
    """Whether the driver's last record says that there are no new events."""
    foreign_ms: int = 0
    """The time of the last record by an earlier attempt after a later one had started; 0 for none."""
    foreign_attempt: int = 0
    committed: Milestone | None = None
    buckets: tuple[Bucket, ...] = ()
    publisher: Reader = field(default_factory=Reader)
    view: Reader | None = None
    """None if the view is not polled."""
    waiting: int | None = None
    """Events at the source that no barrier covers; None if the source's end is unknown."""
    waiting_ms: int = 0
    """The observed time since which events wait."""
    hidden: int = 0
    """Offsets at the source that cannot be read yet because of an open transaction before them."""
    samples: tuple[Sample, ...] = ()
    history: History = field(default_factory=History)
    disks: Mapping[str, Disk] = field(default_factory=dict)
    """By name: that of the data folder, and those of brokers."""
    snapshot: NewestSnapshot | None = None
    """None if the view takes none, or is not polled."""
    alerts: Known = field(default_factory=dict)
    candidate: Generation | None = None
    """The newest candidate that waits to be promoted, if watch may hold it."""
    successor: Generation | None = None
    """The generation that was promoted after this one, which makes this state obsolete."""
    unreadable: int = 0
    """Number of skipped records with an unknown schema."""

    @property
    def sequence(self) -> int:
        """The sequence of the newest milestone; 0 before the first."""
        return self.committed.sequence if self.committed else 0


@dataclass(frozen=True)
class Drift:
    """How far commits and the output are behind processing."""

    epochs: int
    """Epochs with a barrier and no milestone."""
    events: int
    """Offsets of the source between the newest milestone's cut and the newest barrier's."""
    ms: int
    """Time between the barriers of the two."""
    waiting: int | None
    """Events that no barrier covers yet; None if unknown."""
    unpublished: int
    """Milestones that the output does not hold."""


def drift(state: JobStatus) -> Drift:
    """Return the drift; never negative, although one topic may be read ahead of another."""
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


def progress_ms(state: JobStatus, part: str) -> int:
    """Return the time of a part's last progress."""
    if part == alerts.DRIVER:
        return state.processed.written_ms if state.processed else 0
    if part == alerts.SIGNAL:
        return state.committed.committed_ms if state.committed else 0
    reader = {alerts.PUBLISHER: state.publisher, alerts.VIEW: state.view}.get(part)
    return reader.moved_ms if reader and reader.sequence else 0
