"""One view's RocksDB. Rows and position are written in the same batch, so neither is ahead of the other.

The position is the applied milestone: its bytes and its offset on the commit stream. `applying` is a milestone
that is being applied in several batches; while it is set, the store is incomplete.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.runtime.crash_points import reach
from cutwater.core.errors import MachineError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.output.suspects import Suspects
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.lineage import Lineage
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from cutwater.core.state.bulk_load import Done
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.selection import Selection
from cutwater.views.store.folders import loading_folder, restoring_folder
from cutwater.views.store.key_layout import WINDOWS_END, first_live, segment_ms, segment_prefix
from cutwater.views.store.meta_records import (
    APPLIED,
    APPLYING,
    ARRIVED,
    IDENTITY,
    LINEAGE,
    LOADED,
    LOWER,
    PARTITIONS,
    PROBE,
    describe_part,
    epoch_of,
    lineage_of,
    pack_arrived,
    pack_entry,
    pack_lineage,
    pack_part,
    unpack_entry,
)
from cutwater.views.store.pinned_rows import PinnedRows
from cutwater.views.store.rocksdb_tuning import Figures, advice, failure
from cutwater.views.store.table import RocksTable, Table

FORMAT = 1
_LOWEST = segment_prefix(-(1 << 63))


class Store:
    """One view's store, open in one process at a time. Every method raises MachineError if RocksDB fails."""

    def __init__(
        self,
        folder: Path,
        job: Job,
        generation: Generation,
        segment: int | None = None,
        open_table: Callable[[Path], Table] = RocksTable,
        partitions: Partitions | None = None,
        may_empty: bool = True,
        selection: Selection | None = None,
    ) -> None:
        """Open or create the store. Raises UsageError if the folder holds another view.

        `segment`: the length of a time segment in ms for a new store, instead of the usual one. `partitions`:
        those that the view holds; None for all. `selection`: what it holds of their rows; None for all. A store
        with other partitions or another selection is emptied, or refused unless `may_empty`.
        """
        self.folder = folder
        self.written_bytes = 0
        """Bytes of keys and values written since the start; a rewritten row counts again."""
        self.touched: Suspects | None = None
        """Gathers the storage keys of the rows that are written; None: nobody needs them."""
        self._failed = False
        self._job, self._generation, self._partitions = job, generation, partitions
        self._segment = segment or segment_ms(job)
        self._may_empty = may_empty
        self.selection = selection
        with self._guard("opening"):
            self._db = open_table(folder)
        self._look()

    @property
    def job(self) -> Job:
        """The job of its rows."""
        return self._job

    @property
    def generation(self) -> Generation:
        """The generation of its rows."""
        return self._generation

    def _look(self) -> None:
        try:
            # The store is locked, so waiting files are left by an interrupted load that is not recorded.
            shutil.rmtree(loading_folder(self.folder), ignore_errors=True)
            self.segment_ms = self._identify()
            self.emptied = self._empty_of_others()
            """Whether the store held other partitions or another selection, and was emptied."""
            self.applied = self._entry(APPLIED)
            self.applying = self._entry(APPLYING)
            self.lower_ms = self._lower()
            """Windows that end at or below it were evicted; None: none were. It never decreases."""
            self.lineage = self._lineage()
            """The generations of the commit stream up to this one, as far as they are known."""
            if self.applied is not None:
                shutil.rmtree(restoring_folder(self.folder), ignore_errors=True)
            self._live = -(1 << 63)  # the first segment kept; unknown before the first commit
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the folder. Pinned rows keep it locked until they are released."""
        told = self._failed
        try:
            with self._guard("closing"):
                self._db.close()
        except MachineError:
            if not told:
                raise  # otherwise the first failure is raised already, and is clearer

    def pin(self) -> PinnedRows:
        """Return the present rows, for any number of readers."""
        with self._guard("pinning the rows"):
            return PinnedRows(self._db.cursor(WINDOWS_END), self.folder)

    def scan(self, start: bytes, stop: bytes, piece_rows: int) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield all rows in [start, stop) as of the first piece, in lists of `piece_rows`; cheaper than `pin`.
        Raises MachineError if the disk fails."""
        shown = self.pin()
        with self._guard("reading the rows"):
            rows = self._db.scan(start, stop)
        while piece := list(islice(rows, piece_rows)):
            yield piece
            start = piece[-1][0] + b"\x00"
        left = shown.first(start)  # raises if reading failed
        if left is not None and left < stop:
            raise MachineError(f"{self.folder}: reading ended too early. Delete the folder to rebuild the view.")

    def value(self, name: bytes) -> bytes | None:
        """Return the present value of a storage key; None if there is none."""
        with self._guard("reading a row"):
            return self._db.get(name)

    def values(self, names: Sequence[bytes]) -> list[bytes | None]:
        """Return the present values of storage keys, in their order."""
        with self._guard("reading rows"):
            return [self._db.get(name) for name in names]

    def figures(self) -> Figures | None:
        """Return the table's statistics; None while it is closed or replaced."""
        try:
            return self._db.figures()
        except Exception:  # rocksdict raises the bare class
            return None

    def begin(self, entry: Entry) -> None:
        """Mark the store as incomplete until `commit`, also across a crash."""
        with self._guard(f"beginning {entry.milestone.token}"):
            self._db.write({APPLYING: pack_entry(entry)})
        self.applying = entry

    def put(self, rows: Mapping[bytes, bytes], bulk: bool = False) -> None:
        """Write some rows of the milestone after `begin`. `bulk`: skip the log, since `commit` flushes."""
        self._note(rows)
        with self._guard("writing rows"):
            self._db.write(rows, logged=not bulk)
        self.written_bytes += _size(rows)

    def loading(self, now: bool) -> None:
        """Switch compaction off before a bulk load (`now`), and on again after it."""
        with self._guard("changing how rows are written"):
            self._db.loading(now)

    def probe(self) -> None:
        """Check whether the store can be written again after a full disk. Raises DiskFullError while it cannot.
        RocksDB checks that itself about every 5 s, and refuses all writes until then."""
        with self._guard("trying to write"):
            self._db.write({PROBE: b""})
            self._db.flush()
            self._db.loading(False)  # an interrupted load may not have done this
        self._failed = False

    def load(self, files: Sequence[Path], towards: Milestone, done: Done, floor_ms: int) -> None:
        """Ingest sorted files of rows below a milestone's cut, then write the progress of the load. `floor_ms`:
        the files have no windows that end at or below it. Requires `begin`, or a store of which no milestone is
        shown yet. After a crash between the two, the rows of a file are loaded again, above the same rows."""
        with self._guard("loading files"):
            if files:
                self.written_bytes += sum(file.stat().st_size for file in files)
                self._db.load(files)
            live = first_live(floor_ms, self.segment_ms)
            # A candidate commits nothing for a long time, but its horizon rises.
            passed = self.applied is None and self.applying is None and self._live < live
            drop = (_LOWEST, segment_prefix(live)) if passed else None
            self._db.write({LOADED: json.dumps([epoch_of(towards), done.text()]).encode()}, drop)
            if passed:
                self._live = live

    def loaded(self, towards: Milestone) -> Done | None:
        """Return the progress of an interrupted load. Its row count and digest are valid only for its own
        milestone's epoch. The token may differ: a candidate's milestone is published again on the commit stream
        at its promotion."""
        with self._guard("reading the progress of a load"):
            data = self._db.get(LOADED)
        if data is None:
            return None
        counted, text = json.loads(data)
        done = Done.of(text)
        # An earlier version wrote the token.
        same = counted in (epoch_of(towards), str(towards.token))
        return done if same else replace(done, rows=0, digest=0)

    def commit(
        self,
        entry: Entry,
        rows: Mapping[bytes, bytes],
        bulk: bool = False,
        floor_ms: int | None = None,
        lower_ms: int | None = None,
    ) -> None:
        """Write the (last) rows of a milestone, drop rows below its horizon, and move the position, in one
        batch. `floor_ms`: drop only windows that end at or below it, if it is below the horizon. `lower_ms`:
        also drop windows that end at or below it, and record it as the view's lower bound."""
        lower = max((one for one in (self.lower_ms, lower_ms) if one is not None), default=None)
        drop_ms = entry.milestone.horizon_ms if floor_ms is None else floor_ms
        moved = {APPLIED: pack_entry(entry), APPLYING: None, LOADED: None}
        if entry.arrived is not None:
            moved[ARRIVED] = pack_arrived(entry.arrived, entry.milestone.changelog_cut)
        if lower is not None:
            drop_ms = max(drop_ms, lower)
            moved[LOWER] = str(lower).encode()
        self._note(rows)
        with self._guard(f"committing {entry.milestone.token}"):
            if bulk:
                self._db.flush()
            live = first_live(drop_ms, self.segment_ms)
            drop = (_LOWEST, segment_prefix(live)) if self._live < live else None
            reach("rows-read")
            self._db.write({**rows, **moved}, drop)
            reach("milestone-stored")
        if self.applied is None:  # a snapshot that was not fetched whole is of no use any more
            shutil.rmtree(restoring_folder(self.folder), ignore_errors=True)
        self.applied, self.applying, self.lower_ms, self._live = entry, None, lower, live
        self.written_bytes += _size(rows)

    def _note(self, rows: Mapping[bytes, bytes]) -> None:
        if self.touched is not None:
            self.touched.add(rows)

    def floor_ms(self, horizon_ms: int) -> int:
        """Return the bound for this horizon: windows that end at or below it are not kept."""
        return horizon_ms if self.lower_ms is None else max(horizon_ms, self.lower_ms)

    @property
    def sorting(self) -> bool:
        """Whether RocksDB compacts or is about to, as after a load."""
        with self._guard("querying compactions"):
            return self._db.sorting()

    def checkpoint(self, folder: Path) -> Entry:
        """Copy the store at its milestone into a new folder on the same disk; return the milestone. Costs a
        flush and hard links. Call between two milestones, from the thread that applies them."""
        entry = self.applied
        if entry is None or self.applying is not None:
            raise MachineError(f"{self.folder}: the view is not at a milestone, so no checkpoint can be made")
        try:
            self._db.checkpoint(folder)
        except Exception as error:  # the view itself is not affected
            raise MachineError(f"{folder}: no checkpoint: {error}. {advice(str(error))}") from None
        return entry

    def replace(self, files: Path) -> None:
        """Become the store in another folder of the same disk. Allowed only for a store without a milestone.
        After a crash half-way there is no store; the next start finds `files` in place, or everything done."""
        if self.applied is not None:
            raise MachineError(
                f"{self.folder} holds milestone {self.applied.milestone.token}, so it cannot be replaced"
            )
        with self._guard("replacing the store by a snapshot"):
            self._db.replace(files)
        self._look()

    def remember(self, lineage: Lineage) -> None:
        """Store the lineage, so that the next start need not read the stream from its first record."""
        with self._guard("writing the lineage"):
            self._db.write({LINEAGE: pack_lineage(lineage)})
        self.lineage = lineage

    def _lineage(self) -> Lineage:
        with self._guard("reading the lineage"):
            data = self._db.get(LINEAGE)
            return Lineage.of(self._generation) if data is None else lineage_of(data)

    def _lower(self) -> int | None:
        with self._guard("reading the lower bound"):
            data = self._db.get(LOWER)
        return None if data is None else int(data)

    def _entry(self, name: bytes) -> Entry | None:
        with self._guard("reading the position"):
            data = self._db.get(name)
            arrived = self._db.get(ARRIVED) if name == APPLIED else None
        return None if data is None else unpack_entry(self.folder, data, arrived)

    def _identify(self) -> int:
        """Check or write the identity of the view; return the segment length of its layout."""
        job, generation, length = self._job, self._generation, self._segment
        mine = {
            "format": FORMAT,
            "job": job.name,
            "generation": str(generation),
            "schema": crc64(job.state_schema).hex(),
            **({"pane_ms": job.row_windows.size_ms} if job.overlap_ms else {}),
        }
        with self._guard("reading the identity"):
            data = self._db.get(IDENTITY)
            if data is None:
                self._db.write({IDENTITY: json.dumps({**mine, "segment_ms": length}).encode()})
                return length
            found: dict[str, Any] = json.loads(data)
        differs = [
            f"{name} is {found.get(name)}, not {value}" for name, value in mine.items() if found.get(name) != value
        ]
        if differs:
            raise UsageError(
                f"{self.folder} holds another view: {'; '.join(differs)}. Use another data folder, or delete this "
                "one to rebuild it."
            )
        return int(found["segment_ms"])

    def _empty_of_others(self) -> bool:
        """Empty a store of other partitions or selection, in one batch, so that a crash leaves either view."""
        mine = pack_part(self._partitions, self.selection)
        with self._guard("reading the partitions of the store"):
            found = self._db.get(PARTITIONS) or b"null"
            holds_any = self._db.get(APPLIED) or self._db.get(APPLYING)
            other = found != mine
            if other and holds_any and not self._may_empty:
                raise UsageError(
                    f"{self.folder} holds the partitions {describe_part(found)}, not "
                    f"{describe_part(mine)}: use another data folder, or the same partitions and selection"
                )
            if other:
                nothing = {PARTITIONS: mine, APPLIED: None, APPLYING: None, LOADED: None, LOWER: None}
                nothing[ARRIVED] = None
                self._db.write(nothing, (_LOWEST, WINDOWS_END))
        return other

    @contextmanager
    def _guard(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (UsageError, MachineError):
            raise
        except Exception as error:  # rocksdict raises the bare class
            self._failed = True
            raise failure(f"{self.folder}: {doing}: {error}. {advice(str(error))}", error) from error


def _size(rows: Mapping[bytes, bytes]) -> int:
    return sum(map(len, rows)) + sum(map(len, rows.values()))
