"""One view's RocksDB: rows and position in the same write batch, so that neither can be ahead of the other.

The position is the applied milestone itself: its bytes, and its offset on the commit stream. `applying` names a
milestone that is being applied in several batches; while it is there the store is not whole.
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

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.runtime.crash_points import reach
from cutwater.core.driver.row_proof import Writer
from cutwater.core.errors import MachineError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.lineage import Lineage, Span
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from cutwater.core.state.bulk_load import Done
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.selection import Selection
from cutwater.views.store.key_layout import WINDOWS_END, first_live, meta, segment_ms, segment_prefix
from cutwater.views.store.pinned_rows import Pinned
from cutwater.views.store.rocksdb_tuning import Figures, failure
from cutwater.views.store.table import RocksTable, Table

FORMAT = 1
_IDENTITY, _APPLIED, _APPLYING = meta("identity"), meta("applied"), meta("applying")
_PARTITIONS, _LOADED, _LOWER = meta("partitions"), meta("loaded"), meta("lower")
_PROBE, _LINEAGE, _ARRIVED = meta("probe"), meta("lineage"), meta("arrived")
_OFFSET_BYTES = 8
_LOWEST = segment_prefix(-(1 << 63))


def folder_of(data_dir: Path, job: str, generation: Generation) -> Path:
    """Where the view of one generation of a job lives."""
    return data_dir / "views" / job / str(generation)


def part_in(folder: Path) -> tuple[Partitions | None, Selection | None]:
    """The partitions that the store of a folder holds, and what of them; None for all.

    Raises MachineError as `Store` does.
    """
    return _part_of(_kept(folder, _PARTITIONS)[0] or b"null")


def applied_in(folder: Path) -> Entry | None:
    """The milestone that the store of a folder is at, whole; None where it is at none.

    Raises MachineError as `Store` does.
    """
    applying, data, arrived = _kept(folder, _APPLYING, _APPLIED, _ARRIVED)
    return None if applying or data is None else _unpack(folder, data, arrived)


def _kept(folder: Path, *names: bytes) -> list[bytes | None]:
    try:
        table = RocksTable(folder)
        try:
            return [table.get(name) for name in names]
        finally:
            table.close()
    except Exception as error:  # rocksdict raises the bare class
        raise MachineError(f"{folder}: opening: {error}. {_advice(str(error))}") from None


class Store:
    """Opened by one process at a time. Every method raises MachineError when RocksDB fails, naming the folder."""

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
        """Open or create; UsageError when the folder holds a view of something else.

        `segment`: the length of a time segment in ms of a new store, where the usual one does not suit.
        `partitions`: those that the view holds, None for all. `selection`: what it holds of their rows, None for
        all. A store of another part is emptied, or refused where it may not be.
        """
        self.folder = folder
        self.written_bytes = 0
        """Of keys and values, since the start; a row that is written again counts again."""
        self._failed = False
        self._job, self._generation, self._partitions = job, generation, partitions
        self._segment = segment or segment_ms(job)
        self._may_empty = may_empty
        self.selection = selection
        with self._guard("opening"):
            self._db = open_table(folder)
        self._look()

    def _look(self) -> None:
        """Whose store it is, and how far it has come."""
        try:
            # Nobody else is at work here now: what waits is of a loading that was broken off, and is not told of.
            shutil.rmtree(loading_folder(self.folder), ignore_errors=True)
            self.segment_ms = self._identify()
            self.emptied = self._empty_of_others()
            """Was it a view of another part?"""
            self.applied = self._entry(_APPLIED)
            self.applying = self._entry(_APPLYING)
            self.lower_ms = self._lower()
            """Windows that end at or below it were evicted; None: none were. It never falls."""
            self.lineage = self._lineage()
            """The generations of the commit stream up to this one, as far as they are known."""
            if self.applied is not None:
                shutil.rmtree(restoring_folder(self.folder), ignore_errors=True)
            self._live = -(1 << 63)  # the first segment kept; not known before the first commit
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the folder; rows still pinned keep it locked until they are let go."""
        told = self._failed
        try:
            with self._guard("closing"):
                self._db.close()
        except MachineError:
            if not told:
                raise  # else by what failed first, and more clearly

    def pin(self) -> Pinned:
        """The rows as they are now, for any number of readers."""
        with self._guard("pinning the rows"):
            return Pinned(self._db.cursor(WINDOWS_END), self.folder)

    def scan(self, start: bytes, stop: bytes, piece_rows: int) -> Iterator[list[tuple[bytes, bytes]]]:
        """All rows in [start, stop) as they are at the first piece, so many at a time: for less than by `pin`.

        Raises MachineError when the disk fails.
        """
        shown = self.pin()
        with self._guard("reading the rows"):
            rows = self._db.scan(start, stop)
        while piece := list(islice(rows, piece_rows)):
            yield piece
            start = piece[-1][0] + b"\x00"
        left = shown.first(start)  # raises, where reading failed
        if left is not None and left < stop:
            raise MachineError(
                f"{self.folder}: reading ended before its end. Delete the folder to rebuild the view."
            )

    def figures(self) -> Figures | None:
        """The table's own numbers; None while it is closed or replaced."""
        try:
            return self._db.figures()
        except Exception:  # rocksdict raises the bare class
            return None

    def begin(self, entry: Entry) -> None:
        """From here to `commit` the store is not whole, and says so if the process dies."""
        with self._guard(f"beginning {entry.milestone.token}"):
            self._db.write({_APPLYING: _pack(entry)})
        self.applying = entry

    def put(self, rows: Mapping[bytes, bytes], bulk: bool = False) -> None:
        """Write a part of the milestone that was begun. `bulk` skips the log: `commit` flushes before it."""
        with self._guard("writing rows"):
            self._db.write(rows, logged=not bulk)
        self.written_bytes += _size(rows)

    def loading(self, now: bool) -> None:
        """Much will be loaded, or has been."""
        with self._guard("changing how rows are written"):
            self._db.loading(now)

    def probe(self) -> None:
        """Can it be written again, after a disk that was full? Raises DiskFullError while it cannot.

        RocksDB finds out by itself, within five seconds or so, and refuses every write until then.
        """
        with self._guard("trying to write"):
            self._db.write({_PROBE: b""})
            self._db.flush()
            self._db.loading(False)  # a load that was broken off may not have been able to say so
        self._failed = False

    def load(self, files: Sequence[Path], towards: Milestone, done: Done, floor_ms: int) -> None:
        """Take sorted files of rows below a milestone's cut, and write down how far the loading has come.

        `floor_ms`: windows that end at or below it are not among them.

        The milestone was begun, or nothing is shown of this store yet.

        In this order: after a crash in between the rows of a file are loaded once more, above the same ones.
        """
        with self._guard("loading files"):
            if files:
                self.written_bytes += sum(file.stat().st_size for file in files)
                self._db.load(files)
            live = first_live(floor_ms, self.segment_ms)
            # Of a candidate nothing is committed for long, and its horizon rises all the same.
            passed = self.applied is None and self.applying is None and self._live < live
            drop = (_LOWEST, segment_prefix(live)) if passed else None
            self._db.write({_LOADED: json.dumps([_epoch_of(towards), done.text()]).encode()}, drop)
            if passed:
                self._live = live

    def loaded(self, towards: Milestone) -> Done | None:
        """How far a loading that was broken off had come. What it counted is of its own milestone's epoch only.

        By whatever token: what a candidate's milestone proves, the commit stream tells again at its promotion.
        """
        with self._guard("reading how far the loading came"):
            data = self._db.get(_LOADED)
        if data is None:
            return None
        counted, text = json.loads(data)
        done = Done.of(text)
        # An earlier version has named the token.
        same = counted in (_epoch_of(towards), str(towards.token))
        return done if same else replace(done, rows=0, digest=0)

    def commit(
        self,
        entry: Entry,
        rows: Mapping[bytes, bytes],
        bulk: bool = False,
        floor_ms: int | None = None,
        lower_ms: int | None = None,
    ) -> None:
        """Write the (last) rows of a milestone, drop what its horizon passed, and move the position: one batch.

        `floor_ms`: drop only windows that end at or below it, where it is below the horizon.
        `lower_ms`: drop those that end at or below it, too, and remember that they are not there.
        """
        lower = max((one for one in (self.lower_ms, lower_ms) if one is not None), default=None)
        drop_ms = entry.milestone.horizon_ms if floor_ms is None else floor_ms
        moved = {_APPLIED: _pack(entry), _APPLYING: None, _LOADED: None}
        if entry.arrived is not None:
            moved[_ARRIVED] = _pack_arrived(entry.arrived, entry.milestone.changelog_cut)
        if lower is not None:
            drop_ms = max(drop_ms, lower)
            moved[_LOWER] = str(lower).encode()
        with self._guard(f"committing {entry.milestone.token}"):
            if bulk:
                self._db.flush()
            live = first_live(drop_ms, self.segment_ms)
            drop = (_LOWEST, segment_prefix(live)) if self._live < live else None
            reach("rows-read")
            self._db.write({**rows, **moved}, drop)
            reach("milestone-stored")
        self.applied, self.applying, self.lower_ms, self._live = entry, None, lower, live
        self.written_bytes += _size(rows)

    def floor_ms(self, horizon_ms: int) -> int:
        """Windows that end at or below it are not kept at this horizon."""
        return horizon_ms if self.lower_ms is None else max(horizon_ms, self.lower_ms)

    @property
    def sorting(self) -> bool:
        """Is it about to write its files anew, as it does behind a load?"""
        with self._guard("asking for compactions"):
            return self._db.sorting()

    def checkpoint(self, folder: Path) -> Entry:
        """The store at its milestone as one of its own, in a new folder of the same disk. Costs a flush and links.

        Returns the milestone. To be called between two milestones, by whoever applies them.
        """
        entry = self.applied
        if entry is None or self.applying is not None:
            raise MachineError(f"{self.folder}: a checkpoint was asked for while the view is not at a milestone")
        try:
            self._db.checkpoint(folder)
        except Exception as error:  # the view itself is as good as before
            raise MachineError(f"{folder}: no checkpoint: {error}. {_advice(str(error))}") from None
        return entry

    def replace(self, files: Path) -> None:
        """Become the store that lies in another folder of the same disk; only a store without a milestone may.

        Died half-way, there is no store, and the next start finds `files` where they were, or everything done.
        """
        if self.applied is not None:
            raise MachineError(f"{self.folder} holds milestone {self.applied.milestone.token}: it is not replaced")
        with self._guard("taking a snapshot's files"):
            self._db.replace(files)
        self._look()

    def remember(self, lineage: Lineage) -> None:
        """Keep it beside the rows: the next start does not read the stream from its beginning."""
        plain = [[one.first, str(one.generation), one.rewinds_to] for one in lineage.spans]
        with self._guard("writing the lineage"):
            self._db.write({_LINEAGE: json.dumps(plain).encode()})
        self.lineage = lineage

    def _lineage(self) -> Lineage:
        with self._guard("reading the lineage"):
            data = self._db.get(_LINEAGE)
            if data is None:
                return Lineage.of(self._generation)
            found = json.loads(data)
            return Lineage(tuple(Span(first, Generation.parse(name), to) for first, name, to in found))

    def _lower(self) -> int | None:
        with self._guard("reading the lower bound"):
            data = self._db.get(_LOWER)
        return None if data is None else int(data)

    def _entry(self, name: bytes) -> Entry | None:
        with self._guard("reading the position"):
            data = self._db.get(name)
            arrived = self._db.get(_ARRIVED) if name == _APPLIED else None
        return None if data is None else _unpack(self.folder, data, arrived)

    def _identify(self) -> int:
        """Check whose view this is, or write it down; returns the segment length it was laid out with."""
        job, generation, length = self._job, self._generation, self._segment
        mine = {
            "format": FORMAT,
            "job": job.name,
            "generation": str(generation),
            "schema": crc64(job.state_schema).hex(),
        }
        with self._guard("reading the identity"):
            data = self._db.get(_IDENTITY)
            if data is None:
                self._db.write({_IDENTITY: json.dumps({**mine, "segment_ms": length}).encode()})
                return length
            found: dict[str, Any] = json.loads(data)
        differs = [
            f"{name} is {found.get(name)}, not {value}" for name, value in mine.items() if found[name] != value
        ]
        if differs:
            raise UsageError(
                f"{self.folder} holds the view of something else: {'; '.join(differs)}. Use another data "
                "folder, or delete this one to rebuild it."
            )
        return int(found["segment_ms"])

    def _empty_of_others(self) -> bool:
        """Rows and position go in one batch with the new name: a crash leaves the one view or the other."""
        mine = _part(self._partitions, self.selection)
        with self._guard("reading which part it holds"):
            found = self._db.get(_PARTITIONS) or b"null"
            holds_any = self._db.get(_APPLIED) or self._db.get(_APPLYING)
            other = found != mine
            if other and holds_any and not self._may_empty:
                raise UsageError(
                    f"{self.folder} holds the partitions {_named(found)}, not {_named(mine)}: name another data "
                    "folder, or the same part"
                )
            if other:
                nothing = {_PARTITIONS: mine, _APPLIED: None, _APPLYING: None, _LOADED: None, _LOWER: None}
                nothing[_ARRIVED] = None
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
            raise failure(f"{self.folder}: {doing}: {error}. {_advice(str(error))}", error) from error


def _part(partitions: Partitions | None, selection: Selection | None) -> bytes:
    """What a store is told apart by. An older version takes one with a selection for another part."""
    held = None if partitions is None else sorted(partitions)
    return json.dumps(held if selection is None else [held, selection.as_object()]).encode()


def _part_of(part: bytes) -> tuple[Partitions | None, Selection | None]:
    held, selection = json.loads(part), None
    if isinstance(held, list) and isinstance(held[-1], dict):
        held, selection = held[0], Selection.of_object(held[1])
    return None if held is None else frozenset(held), selection


def _named(part: bytes) -> str:
    held, selection = _part_of(part)
    partitions = "of all" if held is None else ", ".join(map(str, sorted(held)))
    return partitions if selection is None else f"{partitions} with {selection}"


def loading_folder(folder: Path) -> Path:
    """Where files of rows wait to be taken into the store of this folder."""
    return folder.with_name(f"{folder.name}.loading")


def restoring_folder(folder: Path) -> Path:
    """Where the files of a snapshot come together, which the store of this folder is to become."""
    return folder.with_name(f"{folder.name}.restoring")


def _advice(text: str) -> str:
    if "corrupt" in text.lower():  # first: it speaks of a "block checksum"
        return (
            "The files are damaged: delete the folder, and the view is rebuilt from a snapshot or the changelog."
        )
    if "lock" in text.lower():
        return "Another process serves from this folder: end it, or set CUTWATER_DATA_DIR."
    return "Check that the disk has room and that the folder can be written; nothing shown so far is lost."


def _epoch_of(milestone: Milestone) -> str:
    return Writer(milestone.generation, milestone.attempt, milestone.epoch).header.decode()


def _size(rows: Mapping[bytes, bytes]) -> int:
    return sum(map(len, rows)) + sum(map(len, rows.values()))


def _pack(entry: Entry) -> bytes:
    return entry.offset.to_bytes(_OFFSET_BYTES, "big") + entry.record


def _pack_arrived(offset: int, cut: Cut) -> bytes:
    """Where a milestone's arrival stands, and the cut that it says: the milestone's own bytes say the origin's."""
    return json.dumps([offset, [[*place, at] for place, at in cut]]).encode()


def _unpack(folder: Path, data: bytes, arrived: bytes | None = None) -> Entry:
    record = protocol_records.decode(data[_OFFSET_BYTES:])
    if not isinstance(record, Milestone):
        raise MachineError(f"{folder}: the position is no milestone; delete the folder to rebuild the view")
    entry = Entry(record, data[_OFFSET_BYTES:], int.from_bytes(data[:_OFFSET_BYTES], "big"))
    if arrived is None:
        return entry
    offset, cut = json.loads(arrived)
    here = Cut.of({TopicPartition(topic, partition): at for topic, partition, at in cut})
    return entry._replace(milestone=replace(record, changelog_cut=here, evidence=()), arrived=offset)
