"""What the console needs of the world: the jobs that run, and readers of one job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.access.audit_log import AuditRecord, AuditRecords
from cutwater.core.driver.rejected_events import Choice, LatePair, Letter
from cutwater.core.generations.candidates import Candidates
from cutwater.core.job.job import Job
from cutwater.core.mirror.replica_lag import SafeTime
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import Mirrored, Steering
from cutwater.core.protocol.records import Hold, Milestone
from cutwater.core.protocol.recovery_log import Recovery
from cutwater.core.state.point_in_time_restore import RestorableSnapshot
from cutwater.operations.job_status import Read


class JobPlace(NamedTuple):
    """One job of the stack: where it runs, as its running file tells."""

    job: str
    job_file: Path
    generation: str
    """That of the stack's start; another one may have been promoted since."""
    cluster: Cluster
    settings: Settings
    """With the job's own data folder."""
    api_url: str
    snapshots: str
    """The place of its snapshots; empty if there is none."""
    ready: bool
    ended: str
    """The time and the error of its end; empty while it runs."""

    def same_place(self, other: JobPlace) -> bool:
        """Return whether a reader of the one reads the other, too."""
        mine = (self.job_file, self.cluster, self.api_url, self.settings.data_dir)
        return mine == (other.job_file, other.cluster, other.api_url, other.settings.data_dir)


class RunningJob(NamedTuple):
    place: JobPlace
    alerts: tuple[Alert, ...] = ()
    """Alerts that are on no topic: processes of the stack that end again and again."""


class SourceEnd(NamedTuple):
    """The end of a job's source."""

    end: Cut
    hidden: int
    """Offsets after the start of an open transaction: they cannot be read yet."""


class RegionState(NamedTuple):
    """What is copied to this region."""

    region: str
    replicas: Sequence[tuple[SafeTime, Steering | None]]
    copies: Mapping[str, Collection[Mirrored]]
    resyncs: Mapping[str, Mapping[str, int]]


class Restorable(NamedTuple):
    """The milestones of a generation that can be restored now."""

    milestones: Sequence[Milestone]
    snapshots: Sequence[RestorableSnapshot]
    notes: Sequence[str]
    """Why something that may be there could not be read."""


class JobReader(Protocol):
    """Reads a job's topics. Every method may raise CutwaterError."""

    job: Job

    def status(self) -> JobStatus:
        """Return the status of the promoted generation, from the ends of the topics."""

    def history(self) -> Iterable[Milestone]:
        """Return the kept milestones, oldest first; of many the newest."""

    def published(self) -> Iterable[tuple[int, int]]:
        """Return sequence and time of the publisher's kept positions."""

    def poll(self, status: JobStatus) -> Sequence[Read]:
        """Return the records above those that the status has read."""

    def source_end(self, status: JobStatus) -> SourceEnd | None:
        """Return the end of the source; None if it is unknown."""

    def close(self) -> None:
        """Give the reader's connection back."""

    def candidates(self) -> Candidates:
        """Return the claims; only what is new is read."""

    def generations(self) -> tuple[Candidates, Mapping[Generation, Milestone]]:
        """Return the claims, and the parent milestone of each."""

    def regions(self) -> RegionState: ...

    def trail(self) -> Sequence[Recovery]: ...

    def actions(self) -> AuditRecords:
        """Return the newest records of the audit log."""

    def restorable(self, generation: Generation) -> Restorable: ...

    def windows_at(self, at: str, key: str, start: str | None, end: str | None, limit: int) -> dict[str, Any]:
        """Return the windows of a key at an older milestone, in the form of the API. `at`: a token or a time."""

    def dead_letters(self) -> Choice[Letter]: ...

    def late(self) -> Choice[LatePair]: ...


class JobOperator(Protocol):
    """Acts on a job, with the rights of the console's user. Every method may raise CutwaterError."""

    def promote(self, generation: Generation) -> None:
        """Request a promotion."""

    def hold(self, generation: Generation, for_ms: int, by: str, reason: str) -> Hold:
        """Let a candidate's promotion wait. `by`: who holds it."""

    def release(self, generation: Generation, by: str, reason: str) -> bool:
        """End a candidate's hold; return whether it had one."""

    def drop(self, generation: Generation, reason: str) -> None:
        """Give a candidate up."""

    def steer(self, origin: str, paused: bool) -> None:
        """Pause the mirror of a region, or let it continue. Raises UsageError if it has no mirror here."""

    def write(self, record: AuditRecord) -> None:
        """Write to the audit log; return once the record is acknowledged."""


class ViewReader(Protocol):
    """Asks a job's rehydrator. Every method but `sequence` may raise CutwaterError."""

    def sequence(self) -> int:
        """Return the sequence of the milestone shown; 0 if it does not answer or shows none."""

    def census(self) -> dict[str, Any]: ...

    def top(self, measure: str, limit: int) -> dict[str, Any]: ...

    def windows(self, key: str, start: str | None, end: str | None, limit: int) -> dict[str, Any]: ...

    def snapshot(self) -> str:
        """Let the rehydrator take a snapshot; return the token of its milestone."""

    def close(self) -> None:
        """Give the connection back."""
