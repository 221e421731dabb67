"""A view built at a chosen milestone, without a service: `cutwater restore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import ProtocolError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry, Jump
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.point_in_time_restore import RestorableSnapshot, RestorePlan, RestoreSources
from cutwater.core.state.selection import Selection
from cutwater.core.state.snapshot_manifest import Unusable
from cutwater.views.bulk.loader import BulkLoader, Observer
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.follow.applier import Applied, Applier
from cutwater.views.follow.milestone_feed import MilestoneFeed
from cutwater.views.query.view import View
from cutwater.views.snapshots.restore import Restorer, Tier
from cutwater.views.store.store import Store

KEPT_MAX = 100_000
"""The most milestones considered, the newest ones."""
SNAPSHOTS_MAX = 200
_POLL_S = 1.0
_SILENT_MAX = 30


def read_sources(
    cluster: Cluster,
    job: Job,
    generation: Generation,
    partitions: Partitions | None,
    now_ms: int,
    tiers: Sequence[Tier],
    log: Any,
) -> RestoreSources:
    """Return what there is to restore from. Raises UnavailableError if brokers or object store do not answer."""
    changelog = topics.changelog(job.name, generation)
    count = partition_count(cluster, changelog)
    with closing(make_consumer(cluster)) as consumer:
        found = {number: bounds(consumer, changelog, number) for number in range(count)}
    return RestoreSources(
        stream=_stream(cluster, job, generation),
        starts={number: low for number, (low, _) in found.items()},
        ends={number: high for number, (_, high) in found.items()},
        now_ms=now_ms,
        partitions=partitions,
        snapshots=[kept for tier in tiers for kept in _snapshots(tier, job, generation, partitions, log)],
    )


def _snapshots(
    tier: Tier, job: Job, generation: Generation, partitions: Partitions | None, log: Any
) -> Iterator[RestorableSnapshot]:
    """Yield the snapshots that are usable by their manifests; a restore checks their files."""
    schema = crc64(job.state_schema).hex()
    for sequence in tier.sequences()[:SNAPSHOTS_MAX]:
        try:
            manifest = tier.manifest(sequence)
            milestone = protocol_records.decode(manifest.record)
        except (Unusable, ProtocolError, UsageError) as why:
            log.warning("snapshot not usable", sequence=sequence, where=tier.name, reason=str(why))
            continue
        theirs = (manifest.job, manifest.generation, manifest.partitions, manifest.schema)
        if theirs == (job.name, generation, partitions, schema) and isinstance(milestone, Milestone):
            yield RestorableSnapshot(milestone, len(manifest.files), manifest.size, manifest.lower_ms)


def _stream(cluster: Cluster, job: Job, generation: Generation) -> list[Entry]:
    topic = topics.milestones(job.name)
    partition_count(cluster, topic)
    entries: list[Entry] = []
    silent = 0
    with closing(MilestoneFeed(cluster, topic, None)) as feed:
        while not feed.at_end:
            came = list(feed.poll(_POLL_S))
            silent = 0 if came else silent + 1
            if silent > _SILENT_MAX:
                raise UnavailableError(
                    f"{topic}: {feed.trouble or 'no record arrives'}; check that the brokers run"
                )
            milestones = (one for one in came if isinstance(one, Entry))
            entries += [one for one in milestones if one.milestone.generation == generation]
            del entries[:-KEPT_MAX]
    return entries


class Rebuild:
    """Build of one view's folder up to a milestone."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        generation: Generation,
        folder: Path,
        partitions: Partitions | None,
        now_ms: Callable[[], int],
        observer: Observer,
        workers: int = 1,
        restorer: Restorer | None = None,
        native: bool = False,
        selection: Selection | None = None,
        segment: int | None = None,
    ) -> None:
        """Open or create the folder. Raises as `Store` does, also for a view with other partitions or another
        selection. `selection`: the part of the rows to keep; None for all. A selection needs the changelog, so
        `restorer` must then be None. `segment`: the layout of a new folder, as of `Store`."""
        self._cluster = cluster
        self._job = job
        self._partitions = partitions
        self._now_ms = now_ms
        self._observer = observer
        self._workers = workers
        self._topic = topics.changelog(job.name, generation)
        self._restorer = restorer
        self._native = native
        part: dict[str, Any] = {"partitions": partitions, "may_empty": False, "selection": selection}
        self._store = Store(folder, job, generation, segment=segment, **part)
        self._view: View | None = None

    @property
    def applied(self) -> Milestone | None:
        """The milestone of the folder, which may also hold a part of a later one."""
        return self._store.applied.milestone if self._store.applied else None

    @property
    def lower_ms(self) -> int | None:
        """Windows that end at or below it were evicted, though above the horizon; None: none were."""
        applied, lower = self.applied, self._store.lower_ms
        return None if lower is None or applied is None or lower <= applied.horizon_ms else lower

    def shows(self, milestone: Milestone) -> bool:
        """Return whether the folder is at this milestone and complete."""
        return self.applied == milestone and self._store.applying is None

    def run(self, plan: RestorePlan) -> Applied:
        """Bring the folder to the plan's milestone. Raises UsageError if it holds a part of a later one;
        DivergenceError if the changelog is not what the milestone proves; UnavailableError if the brokers do
        not answer, or compaction has overtaken the read: retry with a later milestone."""
        begun, milestone = self._store.applying, plan.to.milestone
        if begun is not None and begun.milestone.sequence > milestone.sequence:
            raise UsageError(
                f"{self._store.folder} holds a part of {begun.milestone.token}, which is later than "
                f"{milestone.token}: restore that one or a later one, or use another --data-dir"
            )
        # Continue an interrupted load, unless only the snapshot holds the milestone.
        if plan.snapshot and self._restorer and (begun is None or not plan.held):
            self._restorer.restore(self._store, lambda: False, plan.snapshot.milestone.sequence)
        if self.shows(milestone):
            return Applied()
        if not plan.held:
            raise UnavailableError(
                f"the snapshot of {milestone.token} cannot be used, and compaction may have removed values below "
                "its cut: restore another milestone"
            )
        ranges = Ranges(self._cluster, self._topic, partitions=self._partitions)
        bulk = BulkLoader(
            self._cluster,
            self._job,
            self._topic,
            self._store,
            self._observer,
            self._workers,
            native=self._native,
        )
        try:
            return Applier(self._store, self._job, ranges, self._now_ms, bulk=bulk).apply(Jump(plan.to))
        except Overtaken:
            raise UnavailableError(
                f"compaction has overtaken {milestone.token} during the read: restore a later one"
            ) from None
        finally:
            ranges.close()

    def view(self) -> View:
        """Return the view, which is closed with this object."""
        self._view = self._view or View(self._store, self._job)
        return self._view

    def copy_to(self, folder: Path) -> None:
        """Copy the folder's view into a new folder on the same disk, by links to its files."""
        self._store.checkpoint(folder)

    def close(self) -> None:
        if self._view is None:
            self._store.close()
        else:
            self._view.close()
