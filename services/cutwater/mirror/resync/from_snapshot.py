"""The resync of a changelog from a snapshot of the origin's view: it repairs a log that has lost rows.

All checks come before any deletion: the snapshot is chosen, fetched, verified and opened first. Then the copy is
given up as in `resync`, and the snapshot's rows are written, with the positions last. Until then no mirror works
here; after an interruption, run it again.

If views share the partitions, one snapshot of each, all of the same milestone, together form the snapshot.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.topic_ids import Identity
from cutwater.adapters.kafka.writers.copy_writer import CopyingWriter
from cutwater.adapters.topics.commit_stream import newest_milestone
from cutwater.core.checks.replication import UNREPLICATED, Replication
from cutwater.core.errors import ProtocolError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.shards import ShardMap
from cutwater.core.mirror.gaps import in_origin
from cutwater.core.mirror.topic_config_sync import copy_of
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.topic_settings import FoundTopic
from cutwater.core.state.backlog import Entry
from cutwater.core.state.resync_snapshot_set import cuts_of, find_complete_set, generation_of, unfit
from cutwater.core.state.snapshot_manifest import Manifest, Unusable, share_name
from cutwater.mirror.resync.resync import CopyState, give_up_copy, read_copy_state, require_apart
from cutwater.mirror.resync.snapshot_writer import Seed, SnapshotRows
from cutwater.mirror.topics.origin import Origin, ensure
from cutwater.views.query.view import View
from cutwater.views.snapshots.object_store_tier import SnapshotRepository
from cutwater.views.snapshots.repositories import SnapshotRepositories
from cutwater.views.snapshots.restore import stream_check
from cutwater.views.snapshots.snapshot_share import ShareReader, SnapshotShare

SNAPSHOTS_MAX = 200
"""Snapshots examined, the newest first."""
SHOWN_MAX = 5

Kept = Mapping[int, tuple[int, int]]
"""First offset and end of each partition of the origin's log."""


class ResyncPlan(NamedTuple):
    """The resync to run, or its result."""

    copy_state: CopyState
    """The copy that is given up."""
    found: FoundTopic
    """The origin's topic now."""
    kept: Kept
    parts: list[SnapshotShare]
    """The snapshot; several if views share the partitions."""
    seed: Seed
    passed_over: dict[int, str]
    """Newer snapshots by sequence, and why they do not fit."""

    @property
    def files(self) -> int:
        return sum(len(one.manifest.files) for one in self.parts)

    @property
    def size(self) -> int:
        return sum(one.manifest.size for one in self.parts)


class _Unfit(Exception):
    """The reason why the snapshots of a milestone cannot replace the log."""


class SnapshotResync:
    """The resync of one changelog from a snapshot."""

    def __init__(
        self,
        own: Cluster,
        origin: Cluster,
        job: Job,
        region: str,
        topic: str,
        shelves: SnapshotRepositories,
        data_dir: Path,
        now_ms: Callable[[], int],
        log: Any,
        replication: Replication = UNREPLICATED,
    ) -> None:
        """`region`: the origin's name. `data_dir`: keeps the snapshot's files until this is done. Raises
        UsageError for a topic without snapshots.
        """
        generation = generation_of(job.name, topic, region)
        if generation is None:
            raise UsageError(
                f"{topic} is no changelog, so no snapshot holds its rows. Run this without --from-snapshot to "
                "copy it from the start of its log. Nothing was deleted"
            )
        self._generation = generation
        self._own, self._origin, self._there = own, origin, Origin(origin)
        self._job, self._region, self._topic = job, region, topic
        self._shelves = shelves
        self._schema = crc64(job.state_schema).hex()
        self._folder = data_dir / "resync" / job.name / str(generation)
        self._now_ms, self._replication = now_ms, replication
        self._on_stream = stream_check(origin, job)
        self._reader = ShareReader(self._folder, job, self._on_stream, log)

    def plan(self) -> ResyncPlan:
        """Return the plan, without changes. Raises UsageError if no snapshot fits, UnavailableError if brokers or
        the store do not answer.
        """
        return next(self._plans())

    def run(self, say: Callable[[str], Any], rows: Callable[[int], Any]) -> ResyncPlan:
        """Give the copy up, write it from the newest complete snapshot that fits, and return the plan.

        `rows`: called with the number of rows of each write. May be interrupted anywhere and run again. Raises as
        `plan` does; FencedError if a generation is claimed meanwhile, or another resync starts.
        """
        for plan in self._plans():
            with ExitStack() as held:
                try:
                    views = [held.enter_context(closing(self._opened(part))) for part in plan.parts]
                    self._require_fit(plan, views)
                except _Unfit as why:
                    plan.passed_over[plan.seed.milestone.sequence] = str(why)
                    continue
                say(f"the snapshot of {plan.seed.milestone.token} is fetched and complete")
                with give_up_copy(
                    self._own, self._job.name, self._region, plan.copy_state, self._now_ms, say
                ) as writer:
                    copy = copy_of(plan.found, self._topic, self._job.name, self._region)
                    ensure(self._own, copy, self._replication)
                    self._write(writer, plan, views, rows)
            break
        shutil.rmtree(self._folder, ignore_errors=True)
        return plan

    def _plans(self) -> Iterator[ResyncPlan]:
        """Yield plans, the newest first. Raises UsageError after the last; the caller adds why a plan failed."""
        require_apart(self._own, self._origin, self._topic)
        copy = read_copy_state(self._own, self._job.name, self._region, self._topic)
        found, identity = self._query_origin(copy)
        kept, horizon_ms = self._log_bounds(identity), self._horizon_ms()
        passed_over: dict[int, str] = {}
        for sequence, shelves in self._offered():
            try:
                parts = self._parts(sequence, shelves, kept, horizon_ms)
                milestone = _milestone(parts[0].manifest)
                entry = Entry(milestone, parts[0].manifest.record, parts[0].manifest.offset)
                if not self._on_stream(entry, lambda: False):
                    raise _Unfit(f"its milestone is not on the commit stream of {self._region}")
            except (_Unfit, Unusable) as why:
                passed_over[sequence] = str(why)
                continue
            seed = Seed(self._topic, identity, milestone, cuts_of(milestone, self._topic, identity.partitions))
            yield ResyncPlan(copy, found, kept, parts, seed, passed_over)
        raise UsageError(self._none(passed_over))

    def _query_origin(self, copy: CopyState) -> tuple[FoundTopic, Identity]:
        found = self._there.described(self._topic)
        identity = self._there.identities([self._topic]).get(self._topic)
        if found is None or identity is None:
            raise UsageError(
                f"{self._region} has no topic {self._topic}, which is copied from a snapshot's cut on. Nothing "
                "was deleted"
            )
        if (gap := in_origin(self._topic, *identity, copy.known, None)) is not None:
            raise UsageError(f"{gap.text}. A snapshot's cut is not valid in it. Nothing was deleted")
        return found, identity

    def _log_bounds(self, identity: Identity) -> Kept:
        return self._there.log_bounds(self._topic, range(identity.partitions))

    def _horizon_ms(self) -> int | None:
        newest = newest_milestone(self._origin, self._job.name, self._generation)
        return newest.horizon_ms if newest else None

    def _offered(self) -> list[tuple[int, list[SnapshotRepository]]]:
        """Return the milestones that have snapshots, the newest first, with their shelves."""
        found: dict[int, list[SnapshotRepository]] = {}
        for shelf in self._shelves.below(self._job.name, str(self._generation)):
            for sequence in shelf.sequences()[:SNAPSHOTS_MAX]:
                found.setdefault(sequence, []).append(shelf)
        return sorted(found.items(), reverse=True)[:SNAPSHOTS_MAX]

    def _parts(
        self, sequence: int, shelves: list[SnapshotRepository], kept: Kept, horizon_ms: int | None
    ) -> list[SnapshotShare]:
        usable: dict[str, tuple[SnapshotRepository, Manifest]] = {}
        reasons = []
        for shelf in shelves:
            try:
                manifest = shelf.manifest(sequence)
                self._require_mine(shelf, manifest)
                if reason := unfit(_milestone(manifest), manifest.lower_ms, self._topic, kept, horizon_ms):
                    raise _Unfit(reason)
                usable[shelf.names.share] = shelf, manifest
            except (_Unfit, Unusable) as why:
                reasons.append(f"{shelf.names.share}: {why}" if len(shelves) > 1 else str(why))
        chosen, left = find_complete_set({name: one for name, (_, one) in usable.items()}, len(kept))
        if left and not usable:
            raise _Unfit("; ".join(reasons))
        if left:
            nobody = f"no snapshot of it holds partition {', '.join(map(str, sorted(left)))}"
            raise _Unfit("; ".join([nobody, *reasons]))
        return [SnapshotShare(*usable[one.name], one.partitions) for one in chosen]

    def _require_mine(self, shelf: SnapshotRepository, manifest: Manifest) -> None:
        mine = (self._job.name, self._generation, shelf.names.share)
        if (manifest.job, manifest.generation, share_name(manifest.partitions)) != mine:
            raise _Unfit("it belongs to another view")
        if manifest.schema != self._schema:
            raise _Unfit(f"its rows have schema {manifest.schema}, the job file's measures have {self._schema}")

    def _none(self, passed_over: dict[int, str]) -> str:
        place = f"{self._shelves.place} (below {self._job.name}/{self._generation})"
        if not passed_over:
            return (
                f"there is no snapshot of {self._generation} in {place}: pass the store of {self._region}'s "
                "rehydrator with --store. Nothing was deleted"
            )
        first = sorted(passed_over.items(), reverse=True)
        reasons = "; ".join(f"{self._generation}:{one}: {why}" for one, why in first[:SHOWN_MAX])
        more = f"; and {len(first) - SHOWN_MAX} more" if len(first) > SHOWN_MAX else ""
        return (
            f"no snapshot in {place} can replace the log. {reasons}{more}. Take a newer one in {self._region} "
            "('cutwater snapshots create'), or start a new generation there. Nothing was deleted"
        )

    def _opened(self, part: SnapshotShare) -> View:
        """Return the snapshot as a readable view. Raises _Unfit if its files are damaged."""
        try:
            return self._reader.open(part)
        except Unusable:
            raise _Unfit(
                f"{part.repository.names.share} is damaged: 'cutwater snapshots verify' lists the damaged files"
            ) from None
        except UnavailableError as error:
            raise UnavailableError(f"{error}. Nothing was deleted: run this again") from None

    def _require_fit(self, plan: ResyncPlan, views: list[View]) -> None:
        """Check again after the fetch: manifests of older versions do not say what was evicted."""
        milestone, kept = plan.seed.milestone, self._log_bounds(plan.seed.identity)
        for view in views:
            at, _ = view.panes()
            if at != milestone:
                raise _Unfit(f"its files are a view at {at.token}")
            if reason := unfit(milestone, view.rows_lower_ms(milestone), self._topic, kept):
                raise _Unfit(reason)

    def _write(
        self, writer: CopyingWriter, plan: ResyncPlan, views: list[View], rows: Callable[[int], Any]
    ) -> None:
        shards = self._job.shards.shards
        writing = SnapshotRows(
            writer, Offsets(self._own), self._job.name, self._region, shards, plan.seed, self._now_ms
        )
        placed = ShardMap(shards, plan.seed.identity.partitions)
        for view, share in zip(views, plan.parts, strict=True):
            _, stored = view.panes(share.part(placed))
            for window, value in stored:
                if written := writing.take(window, value):
                    rows(written)
        rows(writing.finish())


def _milestone(manifest: Manifest) -> Milestone:
    try:
        found = protocol_records.decode(manifest.record)
    except (ProtocolError, UsageError) as error:
        raise Unusable(str(error)) from None
    if not isinstance(found, Milestone):
        raise Unusable("its record is not a milestone")
    return found
