"""Reads one job's topics for the console. Nothing is written, and no position is kept in Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import audit_log, candidates, recovery_log, rejected_events
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.console.past_windows import PastWindows
from cutwater.console.ports import JobPlace, RegionState, Restorable, SourceEnd
from cutwater.core.access.audit_log import AuditRecords
from cutwater.core.console.timeline import KEPT_MAX
from cutwater.core.driver.rejected_events import Choice, LatePair, Letter
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.generations.candidates import Candidates
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.output.position import Published
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.recovery_log import Recovery
from cutwater.core.state.point_in_time_restore import restorable
from cutwater.operations import job_status
from cutwater.operations.job_status import Read, SourceEnds
from cutwater.operations.regions.replicas import replicas_with_positions
from cutwater.views.snapshots.local_tier import Checkpoints
from cutwater.views.snapshots.point_in_time import read_sources
from cutwater.views.snapshots.repositories import repository_of
from cutwater.views.snapshots.restore import Tier
from cutwater.views.store.folders import folder_of

OFFSETS_EACH = 3
"""A milestone takes an offset, its transaction's marker another one; heartbeats lie between them."""
STARTS_READ = 200
ACTIONS_READ = 400
LISTED_MAX = 200_000
"""A list with more offsets is not read by a page: it would take too long."""


class KafkaReader:
    """The topics of one job."""

    def __init__(self, place: JobPlace) -> None:
        """Raises UsageError for a job file that cannot be read."""
        self.job = load_job(place.job_file)
        self._place = place
        self._cluster = place.cluster
        self._settings = place.settings.model_copy(update={"snapshots": place.snapshots})
        self._limits = job_status.limits_of(self.job, place.settings)
        self._ends = SourceEnds(self._cluster, self.job.topic)
        self._past = PastWindows(self._cluster, self.job, self._settings)
        self._consumer: Any = None
        """For `poll`, which is called every second: a new connection each time would cost more than the read."""
        self._claims_tail: Tail | None = None
        self._claims = Candidates()

    def status(self) -> JobStatus:
        """Return the status of the promoted generation, from the ends of the topics."""
        newest = candidates.promoted(self._cluster, self.job.name)
        generation = newest.generation if newest else Generation.parse(self._place.generation)
        return job_status.recover(self._cluster, self.job, generation, self._limits.window_ms)

    def history(self) -> Iterator[Milestone]:
        """Return the newest kept milestones, oldest first."""
        for read in self._tail(topics.milestones(self.job.name)):
            if isinstance(read, Milestone):
                yield read

    def published(self) -> Iterator[tuple[int, int]]:
        """Return sequence and time of the publisher's kept positions."""
        if not job_status.publishes(self.job):
            return
        topic = topics.published(self.job.name)
        with closing(make_consumer(self._cluster)) as consumer:
            low, high = bounds(consumer, topic, 0)
            first = max(low, high - OFFSETS_EACH * KEPT_MAX)
            for message in read_range(consumer, topic, 0, first, high) if first < high else ():
                if found := published_position(bytes(message.value() or b"")):
                    yield found, message.timestamp()[1]

    def poll(self, status: JobStatus) -> Sequence[Read]:
        """Return the records above those that the status has read."""
        if self._consumer is None:
            self._consumer = make_consumer(self._cluster)
        try:
            return job_status.read_new_with(self._consumer, self.job, status)
        except BaseException:
            self.close()
            raise

    def candidates(self) -> Candidates:
        """Return the claims; only what is new is read."""
        topic = topics.candidates(self.job.name)
        if self._claims_tail is None:
            if topic not in descriptions(self._cluster, [topic]):
                return Candidates()  # a job of an earlier version
            self._claims_tail, self._claims = Tail(self._cluster, topic), Candidates()
        try:
            for record in self._claims_tail.to_end():
                self._claims = self._claims.after(candidates.candidacy(record))
        except BaseException:
            self.close()
            raise
        return self._claims

    def close(self) -> None:
        """Give the connections of `poll` and `candidates` back; a later one opens others."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        if self._claims_tail is not None:
            self._claims_tail.close()
            self._claims_tail = None

    def source_end(self, status: JobStatus) -> SourceEnd | None:
        """Return the end of the source; None if it is unknown."""
        try:
            # Before the end, so that a transaction that commits meanwhile is counted in one of the two.
            hidden = sum(one.records for one in self._ends.open_transactions(status))
            return SourceEnd(self._ends.ask(status), hidden)
        except CutwaterError:
            return None

    def generations(self) -> tuple[Candidates, Mapping[Generation, Milestone]]:
        """Return the claims, and the parent milestone of each as its own region wrote it."""
        found = candidates.candidates(self._cluster, self.job.name)
        return found, {one: candidates.origin_parent(each.claim) for one, each in found.by_id.items()}

    def regions(self) -> RegionState:
        """Return what is copied to this region."""
        found, positions = replicas_with_positions(
            self._settings, self._cluster, self.job.name, lambda _problem: None
        )
        copies = {origin: list(places.values()) for origin, places in positions.copies.items()}
        resyncs = {origin: dict(positions.renewed(origin)) for origin in copies}
        return RegionState(self._settings.region, found, copies, resyncs)

    def trail(self) -> Sequence[Recovery]:
        """Return the newest starts of services, oldest first."""
        return recovery_log.history(self._cluster, self.job.name, STARTS_READ)

    def actions(self) -> AuditRecords:
        """Return the newest records of the audit log, oldest first."""
        return audit_log.read_audit(self._cluster, self.job.name, ACTIONS_READ)

    def restorable(self, generation: Generation) -> Restorable:
        """Return the milestones that can be restored from changelog and snapshots."""
        notes = _Notes()
        settings = self._settings.model_copy(update={"generation": generation})
        tiers: list[Tier] = [Checkpoints(folder_of(settings.views_dir, self.job.name, generation))]
        if settings.snapshots:
            tiers.append(repository_of(settings, self.job, None))
        try:
            known = read_sources(self._cluster, self.job, generation, None, now_ms(), tiers, notes)
        except UnavailableError as error:  # the object store may be away, and the changelog there
            known = read_sources(self._cluster, self.job, generation, None, now_ms(), (), notes)
            notes.found.append(f"snapshots are left out: {error}")
        return Restorable([one.milestone for one in restorable(known)], known.snapshots, notes.found)

    def windows_at(self, at: str, key: str, start: str | None, end: str | None, limit: int) -> dict[str, Any]:
        """Return the windows of a key at an older milestone, in the form of the API."""
        return self._past.read(at, key, start, end, limit)

    def dead_letters(self) -> Choice[Letter]:
        """Return the dead letters of the promoted generation's lineage. Raises UsageError if they are too many."""
        self._require_few(topics.dead_letters(self.job.name), "cutwater dead-letters list")
        return rejected_events.dead_letters(self._cluster, self.job.name)

    def late(self) -> Choice[LatePair]:
        """Return the late events, as `dead_letters`."""
        self._require_few(topics.late(self.job.name), "cutwater late list")
        return rejected_events.late_pairs(self._cluster, self.job.name)

    def _require_few(self, topic: str, instead: str) -> None:
        if topic not in descriptions(self._cluster, [topic]):
            raise UsageError(f"topic {topic} does not exist at {self._cluster.bootstrap}")
        with closing(make_consumer(self._cluster)) as consumer:
            each = (bounds(consumer, topic, one) for one in range(partition_count(self._cluster, topic)))
            offsets = sum(high - low for low, high in each)
        if offsets > LISTED_MAX:
            raise UsageError(f"{topic} holds {offsets:,} offsets, too many for a page: run '{instead}'")

    def _tail(self, topic: str) -> Iterator[protocol_records.Record | None]:
        """Return the newest records, None for one of an unknown schema."""
        partition_count(self._cluster, topic)
        with closing(make_consumer(self._cluster)) as consumer:
            low, high = bounds(consumer, topic, 0)
            first = max(low, high - OFFSETS_EACH * KEPT_MAX)
            for message in read_range(consumer, topic, 0, first, high) if first < high else ():
                yield _decoded(bytes(message.value() or b""))


class _Notes:
    """A logger that keeps what it is told, for the page."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def warning(self, what: str, **about: Any) -> None:
        if len(self.found) < 20:
            self.found.append(f"{what}: {', '.join(f'{name} {value}' for name, value in about.items())}")


def milestones_in(reads: Iterable[Read], job: str) -> Iterator[Milestone]:
    """Return the milestones among new records."""
    for one in reads:
        if one.topic == topics.milestones(job):
            record = _decoded(one.value)
            if isinstance(record, Milestone):
                yield record


def published_position(value: bytes) -> int:
    """Return the sequence that a position of the publisher names as completely published; 0 for none."""
    position = _decoded(value)
    if not isinstance(position, Published) or not position.milestone:
        return 0
    milestone = _decoded(position.milestone)
    return milestone.sequence if isinstance(milestone, Milestone) else 0


def _decoded(value: bytes) -> protocol_records.Record | None:
    try:
        return protocol_records.decode(value)
    except CutwaterError:
        return None
