"""A copied changelog begun anew from a snapshot of the origin's view: what repairs a log that has lost rows.

Everything that can be refused is refused before anything is given up: the snapshot is chosen, fetched, checked and
opened first. Then the copy is given up as by `resync`, and the snapshot's rows are written in its place, with the
positions last. Whoever finds rows without a position stops, and this is run again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.adapters import wire
from cutwater.adapters.admin import cluster_id
from cutwater.adapters.avro import crc64
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.identities import Identity
from cutwater.core.errors import ProtocolError, UnavailableError, UsageError
from cutwater.core.job import Job
from cutwater.core.mirror_gaps import in_origin
from cutwater.core.mirror_seeds import cuts_of, generation_of, unfit
from cutwater.core.records import Milestone
from cutwater.core.replication import UNREPLICATED, Replication
from cutwater.core.restore import Entry
from cutwater.core.snapshots import File, Manifest, Names, Unusable, share_name
from cutwater.core.topic_check import FoundTopic
from cutwater.mirror.origin import Origin, copy_of, ensure
from cutwater.mirror.resync import Standing, give_up, standing
from cutwater.mirror.snapshot_rows import Seed, SnapshotRows
from cutwater.views.restoring import Restorer, stands_on
from cutwater.views.shelf import Shelf
from cutwater.views.store import Store
from cutwater.views.view import View

SNAPSHOTS_MAX = 200
"""Looked at, the newest first."""
SHOWN_MAX = 5

Kept = Mapping[int, tuple[int, int]]
"""First offset and end of each partition of the origin's log."""


class Plan(NamedTuple):
    """What is to be done, or was."""

    standing: Standing
    """What is given up."""
    found: FoundTopic
    """The origin's topic, as it is now."""
    kept: Kept
    manifest: Manifest
    """The snapshot."""
    seed: Seed
    passed_over: dict[int, str]
    """Newer snapshots, by sequence, and why they do not fit."""


class Fitting:
    """The snapshots of a shelf that may stand for the log. Implements `views.restoring.Tier`."""

    def __init__(self, shelf: Shelf, unfit: Callable[[Manifest], str]) -> None:
        self.name = shelf.name
        self._shelf, self._unfit = shelf, unfit
        self.passed_over: dict[int, str] = {}
        """By sequence, the reason."""

    def sequences(self) -> list[int]:
        found = []
        for sequence in self._shelf.sequences()[:SNAPSHOTS_MAX]:
            try:
                reason = self._unfit(self._shelf.manifest(sequence))
            except Unusable as why:
                reason = str(why)
            if reason:
                self.passed_over[sequence] = reason
            else:
                found.append(sequence)
        return found

    def manifest(self, sequence: int) -> Manifest:
        return self._shelf.manifest(sequence)

    def fetch(self, manifest: Manifest, one: File, to: Path, stopping: Callable[[], None]) -> None:
        self._shelf.fetch(manifest, one, to, stopping)


class Seeding:
    """Of one changelog."""

    def __init__(
        self,
        own: Cluster,
        origin: Cluster,
        job: Job,
        region: str,
        topic: str,
        shelf_at: Callable[[Names], Shelf],
        data_dir: Path,
        now_ms: Callable[[], int],
        log: Any,
        replication: Replication = UNREPLICATED,
    ) -> None:
        """`region`: the origin's name. `data_dir`: the snapshot's files lie below it until this is done.

        Raises UsageError for a topic that no snapshot is of.
        """
        generation = generation_of(job.name, topic, region)
        if generation is None:
            raise UsageError(
                f"{topic} is no changelog, and a snapshot holds a state: leave out --from-snapshot, and it is "
                "copied from the start of its log. Nothing was deleted"
            )
        self._generation = generation
        self._own, self._origin, self._there = own, origin, Origin(origin)
        self._job, self._region, self._topic = job, region, topic
        self._shelf = shelf_at(Names(job.name, str(generation), share_name(None)))
        self._folder = data_dir / "resync" / job.name / str(generation)
        self._now_ms, self._log, self._replication = now_ms, log, replication
        self._on_stream = stands_on(origin, job)

    def plan(self) -> Plan:
        """Look, and change nothing.

        Raises UsageError where no snapshot fits, with the reasons; UnavailableError where brokers or the store do
        not answer.
        """
        if cluster_id(self._own) == cluster_id(self._origin):
            raise UsageError(
                f"{self._origin.bootstrap} and {self._own.bootstrap} are the same cluster, so {self._topic} is no "
                "copy. Nothing was deleted"
            )
        copy = standing(self._own, self._job.name, self._region, self._topic)
        found, identity = self._asked(copy)
        kept = self._kept(identity)
        tier = self._fitting(kept)
        for sequence in tier.sequences():
            manifest = tier.manifest(sequence)
            entry = Entry(_milestone(manifest), manifest.record, manifest.offset)
            if self._on_stream(entry, lambda: False):
                newer = {one: why for one, why in tier.passed_over.items() if one > sequence}
                return Plan(copy, found, kept, manifest, self._seed(entry.milestone, identity), newer)
            tier.passed_over[sequence] = f"its milestone does not stand on the commit stream of {self._region}"
        raise UsageError(self._none(tier.passed_over))

    def run(self, say: Callable[[str], Any], rows: Callable[[int], Any]) -> Plan:
        """Give the copy up, and begin it from the newest snapshot that fits; what was done.

        `rows` hears how many more rows are written. May be broken off anywhere and run again. Raises as `plan`
        does; FencedError where a mirror is started meanwhile.
        """
        plan = self.plan()
        with closing(self._opened(plan)) as view:
            milestone, stored = view.stored()
            if milestone != plan.seed.milestone:  # that one's files are damaged
                seed = self._seed(milestone, plan.seed.identity)
                plan = plan._replace(manifest=self._shelf.manifest(milestone.sequence), seed=seed)
            # Fetching takes its time; and an older version's manifest does not say what was evicted.
            if reason := unfit(milestone, view.lower_ms(milestone), self._topic, self._kept(plan.seed.identity)):
                raise UsageError(self._none({milestone.sequence: reason}))
            say(f"the snapshot of {milestone.token} is here and whole")
            give_up(self._own, self._job.name, self._region, plan.standing, say)
            ensure(self._own, copy_of(plan.found, self._topic, self._job.name), self._replication)
            self._write(plan.seed, stored, rows)
        shutil.rmtree(self._folder, ignore_errors=True)
        return plan

    def _asked(self, copy: Standing) -> tuple[FoundTopic, Identity]:
        found = self._there.described(self._topic)
        identity = self._there.identities([self._topic]).get(self._topic)
        if found is None or identity is None:
            raise UsageError(
                f"{self._region} has no topic {self._topic}, whose log is copied on behind a snapshot. Nothing "
                "was deleted"
            )
        if (gap := in_origin(self._topic, *identity, copy.known, None)) is not None:
            raise UsageError(f"{gap.text}. A snapshot's cut means nothing in it; nothing was deleted")
        return found, identity

    def _kept(self, identity: Identity) -> Kept:
        return self._there.kept(self._topic, range(identity.partitions))

    def _seed(self, milestone: Milestone, identity: Identity) -> Seed:
        return Seed(self._topic, identity, milestone, cuts_of(milestone, self._topic, identity.partitions))

    def _fitting(self, kept: Kept) -> Fitting:
        schema = crc64(self._job.state_schema).hex()

        def why_not(manifest: Manifest) -> str:
            mine = (self._job.name, self._generation, None)
            if (manifest.job, manifest.generation, manifest.partitions) != mine:
                return "it is of another view"
            if manifest.schema != schema:
                return f"its rows are of schema {manifest.schema}, and the job file's measures say {schema}"
            return unfit(_milestone(manifest), manifest.lower_ms, self._topic, kept)

        return Fitting(self._shelf, why_not)

    def _none(self, passed_over: dict[int, str]) -> str:
        place = f"{self._shelf.name} (below {self._shelf.names.folder})"
        if not passed_over:
            return (
                f"there is no snapshot of {self._generation} with all partitions in {place}: name the store of "
                f"{self._region}'s rehydrator with --store. Nothing was deleted"
            )
        first = sorted(passed_over.items(), reverse=True)
        reasons = "; ".join(f"{self._generation}:{one}: {why}" for one, why in first[:SHOWN_MAX])
        more = f"; and {len(first) - SHOWN_MAX} more" if len(first) > SHOWN_MAX else ""
        return (
            f"no snapshot in {place} can stand for the log. {reasons}{more}. Take a newer one in {self._region} "
            "('cutwater snapshots create'), or start a new generation there. Nothing was deleted"
        )

    def _opened(self, plan: Plan) -> View:
        """The snapshot as a view that can be read. An earlier try may have left it, whole."""
        store = Store(self._folder, self._job, self._generation)
        if store.applied is not None and store.applied.milestone != plan.seed.milestone:
            store.close()
            shutil.rmtree(self._folder)
            store = Store(self._folder, self._job, self._generation)
        try:
            if store.applied is None:
                self._fetch(store, plan)
            return View(store, self._job)
        except BaseException:
            store.close()
            raise

    def _fetch(self, store: Store, plan: Plan) -> None:
        watched, tier = _Watched(), self._fitting(plan.kept)
        restorer = Restorer(self._job, self._generation, None, (tier,), self._on_stream, watched, self._log)
        if restorer.restore(store, lambda: False, plan.manifest.sequence) is not None:
            return
        if watched.damaged and not watched.away:
            raise UsageError(
                f"no snapshot that fits is whole in {self._shelf.name}: 'cutwater snapshots verify' names what is "
                "damaged. Nothing was deleted"
            )
        raise UnavailableError(
            f"{self._shelf.name}, or the brokers of {self._region}, did not answer. Nothing was deleted: run this "
            "again"
        )

    def _write(self, seed: Seed, stored: Iterable[Any], rows: Callable[[int], Any]) -> None:
        shards = self._job.shards.shards
        writing = SnapshotRows(self._own, self._job.name, self._region, shards, seed, self._now_ms)
        for window, value in stored:
            if written := writing.take(window, value):
                rows(written)
        rows(writing.finish())


class _Watched:
    """Remembers what `Restorer` met."""

    def __init__(self) -> None:
        self.away = self.damaged = False

    def restored(self, manifest: Manifest, seconds: float) -> None: ...

    def unusable(self) -> None:
        self.damaged = True

    def answers(self, well: bool) -> None:
        self.away = self.away or not well


def _milestone(manifest: Manifest) -> Milestone:
    """Raises Unusable."""
    try:
        found = wire.decode(manifest.record)
    except (ProtocolError, UsageError) as error:
        raise Unusable(str(error)) from None
    if not isinstance(found, Milestone):
        raise Unusable("its record is no milestone")
    return found
