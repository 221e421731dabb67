"""Restore of an empty view from its newest usable snapshot: fetched beside it, checked, and moved in."""

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
from cutwater.views.follow.milestone_feed import MilestoneFeed
from cutwater.views.snapshots.disk_space import DiskSpaceGuard
from cutwater.views.snapshots.local_tier import sha256_of
from cutwater.views.store.folders import restoring_folder
from cutwater.views.store.rocksdb_tuning import failure
from cutwater.views.store.store import Store

FILES_AT_ONCE = 4
TRIES = 3
"""Tries in a row without one complete file. Fetched files stay."""
PAUSE_S = 2.0
STREAM_S = 20.0
"""How long the commit stream may take to deliver a milestone."""
POLL_S = 0.2


class Tier(Protocol):
    """A place of snapshots: this disk, or an object store."""

    name: str

    def sequences(self) -> list[int]: ...

    def manifest(self, sequence: int) -> Manifest: ...

    def fetch(self, manifest: Manifest, one: File, to: Path, stopping: Callable[[], None]) -> None: ...


class RestoreMetrics(Protocol):
    """Metrics of a restore."""

    def restored(self, manifest: Manifest, seconds: float) -> None: ...

    def unusable(self, reason: str) -> None: ...

    def record_answer(self, well: bool) -> None: ...


class _Foreign(Unusable):
    """An intact snapshot of another view, such as one with the partitions that this view held before."""


class _NoStream(UnavailableError):
    """The commit stream cannot be read, so no snapshot can be checked; the changelog waits for it too."""


class Restored(NamedTuple):
    """Result of a restore."""

    manifest: Manifest
    tier: str
    seconds: float
    passed_over: int
    """Newer snapshots that could not be used."""


class Restorer:
    """Restorer of one view, called while the view is neither read nor followed."""

    def __init__(
        self,
        job: Job,
        generation: Generation,
        partitions: Partitions | None,
        tiers: Sequence[Tier],
        on_stream: Callable[[Entry, Callable[[], bool]], bool],
        watched: RestoreMetrics,
        log: Any,
        same: Callable[[Entry, Entry], bool] = eq,
    ) -> None:
        """`tiers`: the nearest first. `on_stream`: returns whether a milestone is on the commit stream at its
        offset. `same`: compares the milestone of the files with that of the manifest."""
        self._job = job
        self._generation = generation
        self._partitions = partitions
        self._schema = crc64(job.state_schema).hex()
        self._tiers = tiers
        self._on_stream = on_stream
        self._room = DiskSpaceGuard()
        self._watched = watched
        self._log = log
        self._same = same

    def restore(self, store: Store, stopped: Callable[[], bool], target: int | None = None) -> Restored | None:
        """Fill an empty store; return None, with the store still empty, if there is no usable snapshot.
        `target`: the newest allowed milestone; None for any. Raises Stopped; DiskFullError if a reachable
        snapshot does not fit on the disk. Its files are then deleted, and the call may be retried."""
        begun_s, passed_over = time.monotonic(), 0
        folder = restoring_folder(store.folder)
        self._room.require(folder)
        full: DiskFullError | None = None
        away: set[str] = set()
        given_up = False
        """Whether a later try may find a snapshot."""
        for sequence, tier in self._candidates(target):
            if tier.name in away:
                continue
            try:
                manifest, entry = self._check_snapshot(tier, sequence, stopped)
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
                away.add(tier.name)  # an older one is hardly smaller, but a nearer tier may take no room
                full = error
                self._log.error("no room for a snapshot", sequence=sequence, where=tier.name, error=str(error))
                continue
            except CutwaterError as error:
                away.add(tier.name)
                given_up = True
                self._watched.record_answer(False)
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
        """Yield candidates, newest first, then nearest tier first; none of a tier that fails."""
        found = []
        for place, tier in enumerate(self._tiers):
            try:
                found += [(-sequence, place, tier) for sequence in tier.sequences()]
                self._watched.record_answer(True)
            except CutwaterError as error:
                self._watched.record_answer(False)
                self._log.error("snapshots not listed", where=tier.name, error=str(error))
        for sequence, _, tier in sorted(found, key=lambda one: one[:2]):
            if target is None or -sequence <= target:
                yield -sequence, tier

    def _check_snapshot(self, tier: Tier, sequence: int, stopped: Callable[[], bool]) -> tuple[Manifest, Entry]:
        manifest = tier.manifest(sequence)
        mine = (self._job.name, self._generation, self._partitions, self._schema, sequence)
        its = (manifest.job, manifest.generation, manifest.partitions, manifest.schema, manifest.sequence)
        if its != mine:
            raise _Foreign(f"it belongs to {its}, but this view is {mine}")
        try:
            milestone = protocol_records.decode(manifest.record)
        except (ProtocolError, UsageError) as error:
            raise Unusable(f"its milestone cannot be read: {error}") from None
        if not isinstance(milestone, Milestone) or milestone.sequence != sequence:
            raise Unusable("its milestone does not match its sequence")
        entry = Entry(milestone, manifest.record, manifest.offset)
        if not self._on_stream(entry, stopped):
            raise Unusable("its milestone is not on the commit stream, which was recreated or truncated")
        return manifest, entry

    def _bring(
        self, tier: Tier, manifest: Manifest, entry: Entry, folder: Path, stopped: Callable[[], bool]
    ) -> None:
        try:
            self._fetch(tier, manifest, folder, stopped)
            self._open(folder, entry)
        except DiskFullError:
            self._room.record_full_disk(folder, manifest)
            raise

    def _fetch(self, tier: Tier, manifest: Manifest, folder: Path, stopped: Callable[[], bool]) -> None:
        """Fetch all files, `FILES_AT_ONCE` at a time. Intact files of an earlier try stay."""

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
            raise failure(f"{folder}: {error}. Check that the folder is writable.", error) from None
        left, before = TRIES, len(wanted) + 1
        while missing := [one for one in manifest.files if not (folder / one.name).exists()]:
            left, before = (TRIES if len(missing) < before else left) - 1, len(missing)
            try:
                with ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="snapshot") as pool:
                    list(pool.map(lambda one: tier.fetch(manifest, one, folder / one.name, stopping), missing))
            except UnavailableError as error:
                if not left:
                    raise
                self._watched.record_answer(False)
                self._log.warning("snapshot not reached, trying again", where=tier.name, error=str(error))
                until = time.monotonic() + PAUSE_S
                while time.monotonic() < until:
                    stopping()
                    time.sleep(POLL_S)

    def _open(self, folder: Path, entry: Entry) -> None:
        """Require that the files are this view, complete and at the milestone."""
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


def stream_check(
    cluster: Cluster, job: Job, topic: str | None = None
) -> Callable[[Entry, Callable[[], bool]], bool]:
    """Return a function that checks whether a milestone is on the commit stream. `topic`: if not the region's
    own. A pruned milestone cannot be checked and is accepted. Without this check a snapshot of a recreated
    stream would be restored at every start and then refused by the follower."""

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
                    # Records are compared, not milestones, since a replica has its own cuts.
                    place = (entry.offset, entry.record)
                    return isinstance(record, Entry) and (record.offset, record.record) == place
                if feed.at_end:
                    return False
                if stopped():
                    raise Stopped
            raise _NoStream(f"{feed.topic}: no record arrived from offset {entry.offset} within {STREAM_S:g} s")
        finally:
            feed.close()

    return on_stream
