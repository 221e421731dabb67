"""An empty view from its newest usable snapshot: fetched beside the view, checked, and put in its place whole."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import (
    CutwaterError,
    DiskFullError,
    DivergenceError,
    ProtocolError,
    UnavailableError,
    UsageError,
)
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import File, Manifest, Unusable
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.follow.commit_feed import MilestoneFeed
from cutwater.views.snapshots.disk_space import Room
from cutwater.views.snapshots.local_tier import sha256_of
from cutwater.views.store.rocksdb_tuning import failure
from cutwater.views.store.store import Store, restoring_folder

FILES_AT_ONCE = 4
TRIES = 3
"""How often in a row a store that gives no whole file is asked; what has been fetched stays."""
PAUSE_S = 2.0
STREAM_S = 20.0
"""How long the commit stream may take to show a milestone."""
POLL_S = 0.2


class Tier(Protocol):
    """Where snapshots are: on this disk, or in an object store."""

    name: str

    def sequences(self) -> list[int]: ...

    def manifest(self, sequence: int) -> Manifest: ...

    def fetch(self, manifest: Manifest, one: File, to: Path, stopping: Callable[[], None]) -> None: ...


class Watched(Protocol):
    """Who counts what a restore meets."""

    def restored(self, manifest: Manifest, seconds: float) -> None: ...

    def unusable(self, reason: str) -> None: ...

    def answers(self, well: bool) -> None: ...


class _Foreign(Unusable):
    """Sound, and of another view: beside a view lie those of the partitions that it held before."""


class _NoStream(UnavailableError):
    """If a snapshot is of this stream cannot be told; the changelog needs the stream too, and waits for it."""


class Restored(NamedTuple):
    """Where a view came from."""

    manifest: Manifest
    tier: str
    seconds: float
    passed_over: int
    """Newer snapshots that could not be used."""


class Restorer:
    """Of one view. Called while nobody reads or follows it."""

    def __init__(
        self,
        job: Job,
        generation: Generation,
        partitions: Partitions | None,
        tiers: Sequence[Tier],
        on_stream: Callable[[Entry, Callable[[], bool]], bool],
        watched: Watched,
        log: Any,
        same: Callable[[Entry, Entry], bool] = eq,
    ) -> None:
        """`tiers`: the nearest first. `on_stream`: does a milestone stand on the commit stream where it should?

        `same`: is the milestone that the files are at the one that the manifest says?
        """
        self._job = job
        self._generation = generation
        self._partitions = partitions
        self._schema = crc64(job.state_schema).hex()
        self._tiers = tiers
        self._on_stream = on_stream
        self._room = Room()
        self._watched = watched
        self._log = log
        self._same = same

    def restore(self, store: Store, stopped: Callable[[], bool], target: int | None = None) -> Restored | None:
        """Fill an empty store; None where there is no snapshot to do it with, and then it is empty as before.

        `target`: the newest milestone that will do, None for any. Raises Stopped; DiskFullError where one that
        can be had does not fit on the disk: nothing of it is left there, and it may be tried again.
        """
        begun_s, passed_over = time.monotonic(), 0
        folder = restoring_folder(store.folder)
        self._room.require(folder)
        full: DiskFullError | None = None
        away: set[str] = set()
        given_up = False
        """Was there something that a later try may find?"""
        for sequence, tier in self._candidates(target):
            if tier.name in away:
                continue
            try:
                manifest, entry = self._checked(tier, sequence, stopped)
                self._bring(tier, manifest, entry, folder, stopped)
            except _Foreign as why:
                self._log.info("snapshot passed over", sequence=sequence, where=tier.name, reason=str(why))
                continue
            except Unusable as why:
                passed_over += 1
                self._watched.unusable(str(why))
                self._log.error("snapshot not usable", sequence=sequence, where=tier.name, reason=str(why))
                continue
            except _NoStream as error:
                self._log.error("no snapshot is restored", error=str(error))
                given_up = True
                break
            except DiskFullError as error:
                away.add(tier.name)  # an older one is hardly smaller; but a nearer one may take no room
                full = error
                self._log.error("no room for a snapshot", sequence=sequence, where=tier.name, error=str(error))
                continue
            except CutwaterError as error:
                away.add(tier.name)
                given_up = True
                self._watched.answers(False)
                self._log.error("snapshot not reached", sequence=sequence, where=tier.name, error=str(error))
                continue
            store.replace(folder)
            done = Restored(manifest, tier.name, time.monotonic() - begun_s, passed_over)
            self._watched.restored(manifest, done.seconds)
            self._log.info(
                "snapshot restored",
                milestone=str(entry.milestone.token),
                where=tier.name,
                files=len(manifest.files),
                bytes=manifest.size,
                seconds=round(done.seconds, 3),
                passed_over=passed_over,
            )
            return done
        if full is not None:
            raise full
        if not given_up:
            shutil.rmtree(folder, ignore_errors=True)
        return None

    def _candidates(self, target: int | None) -> Iterator[tuple[int, Tier]]:
        """Newest first; of the same milestone the nearest tier's first. A tier that is away has none."""
        found = []
        for place, tier in enumerate(self._tiers):
            try:
                found += [(-sequence, place, tier) for sequence in tier.sequences()]
                self._watched.answers(True)
            except CutwaterError as error:
                self._watched.answers(False)
                self._log.error("snapshots not listed", where=tier.name, error=str(error))
        for sequence, _, tier in sorted(found, key=lambda one: one[:2]):
            if target is None or -sequence <= target:
                yield -sequence, tier

    def _checked(self, tier: Tier, sequence: int, stopped: Callable[[], bool]) -> tuple[Manifest, Entry]:
        """Is it of this view, and of this commit stream?"""
        manifest = tier.manifest(sequence)
        mine = (self._job.name, self._generation, self._partitions, self._schema, sequence)
        its = (manifest.job, manifest.generation, manifest.partitions, manifest.schema, manifest.sequence)
        if its != mine:
            raise _Foreign(f"it is of {its}, and this view of {mine}")
        try:
            milestone = protocol_records.decode(manifest.record)
        except (ProtocolError, UsageError) as error:
            raise Unusable(f"its milestone cannot be read: {error}") from None
        if not isinstance(milestone, Milestone) or milestone.sequence != sequence:
            raise Unusable("its milestone is not the one that it is named for")
        entry = Entry(milestone, manifest.record, manifest.offset)
        if not self._on_stream(entry, stopped):
            raise Unusable("its milestone does not stand on the commit stream: that was replaced, or cut")
        return manifest, entry

    def _bring(
        self, tier: Tier, manifest: Manifest, entry: Entry, folder: Path, stopped: Callable[[], bool]
    ) -> None:
        """The files, whole and checked, as a view that can be opened."""
        try:
            self._fetch(tier, manifest, folder, stopped)
            self._open(folder, entry)
        except DiskFullError:
            self._room.give_way(folder, manifest)
            raise

    def _fetch(self, tier: Tier, manifest: Manifest, folder: Path, stopped: Callable[[], bool]) -> None:
        """All files, a few at a time. What an earlier try has left stays where it is right."""

        def stopping() -> None:
            if stopped():
                raise Stopped

        wanted = {one.name: one for one in manifest.files}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():
                if path.name not in wanted or not _right(path, wanted[path.name]):
                    path.unlink()
        except OSError as error:
            raise failure(f"{folder}: {error}. Check that it can be written.", error) from None
        left, before = TRIES, len(wanted) + 1
        while missing := [one for one in manifest.files if not (folder / one.name).exists()]:
            left, before = (TRIES if len(missing) < before else left) - 1, len(missing)
            try:
                with ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="snapshot") as pool:
                    list(pool.map(lambda one: tier.fetch(manifest, one, folder / one.name, stopping), missing))
            except UnavailableError as error:
                if not left:
                    raise
                self._watched.answers(False)
                self._log.warning("snapshot not reached, trying again", where=tier.name, error=str(error))
                until = time.monotonic() + PAUSE_S
                while time.monotonic() < until:
                    stopping()
                    time.sleep(POLL_S)

    def _open(self, folder: Path, entry: Entry) -> None:
        """It must be a view of ours, whole, at its milestone, before it takes the place of anything."""
        try:
            store = Store(folder, self._job, self._generation, partitions=self._partitions)
            applied, applying = store.applied, store.applying
            store.close()
        except DiskFullError:
            raise
        except CutwaterError as error:
            raise Unusable(f"its files cannot be opened: {error}") from None
        if applied is None or applying is not None or not self._same(applied, entry):
            at = applied.milestone.token if applied else "no milestone"
            raise Unusable(f"its files are a view at {at}, not at {entry.milestone.token}")


def _right(path: Path, one: File) -> bool:
    try:
        return path.stat().st_size == one.size and sha256_of(path) == one.sha256
    except OSError:
        return False


def stands_on(cluster: Cluster, job: Job, topic: str | None = None) -> Callable[[Entry, Callable[[], bool]], bool]:
    """Asks the commit stream; `topic`: where it is not the region's own.

    A milestone that was pruned from its start cannot be asked for, and is believed. Without this, a snapshot of a
    stream that was replaced would be restored at every start and refused by the follower, for ever.
    """

    def on_stream(entry: Entry, stopped: Callable[[], bool]) -> bool:
        try:
            feed = MilestoneFeed(cluster, topic or topics.milestones(job.name), entry.offset)
        except DivergenceError:
            return False
        except UnavailableError as error:
            raise _NoStream(str(error)) from None
        try:
            if feed.start > entry.offset:
                return True
            until = time.monotonic() + STREAM_S
            while time.monotonic() < until:
                for record in feed.poll(POLL_S):
                    # What lies behind it, a marker's place or another record, is another stream's. Not asked by
                    # the milestone: a replica has cuts of its own.
                    place = (entry.offset, entry.record)
                    return isinstance(record, Entry) and (record.offset, record.record) == place
                if feed.at_end:
                    return False
                if stopped():
                    raise Stopped
            raise _NoStream(f"{feed.topic}: nothing came from offset {entry.offset} within {STREAM_S:g} s")
        finally:
            feed.close()

    return on_stream
