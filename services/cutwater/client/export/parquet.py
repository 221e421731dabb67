"""A view at one milestone as Parquet files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.adapters.columnar.arrow import Batch, schema_of
from cutwater.adapters.columnar.parquet import parquet_file
from cutwater.client.export.part_owners import WAIT_MS, Holders, find_late, in_order
from cutwater.client.export.stream import open_export
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.state.partition_share import Partitions, require_whole_once
from cutwater.core.state.selection import Selection
from cutwater.views.query.arrow_batches import batches
from cutwater.views.query.milestone_json import milestone_fields, row_metadata
from cutwater.views.query.output_json import from_iso
from cutwater.views.query.row_blocks import RowColumns, columns_of, joined
from cutwater.views.query.view import View
from cutwater.views.store.folders import folder_of
from cutwater.views.store.meta_records import part_in
from cutwater.views.store.store import Store

TRIES = 5
"""The number of tries until all peers show the same milestone."""
AHEAD_BYTES_MAX = 64 << 30
"""The bound on the answers that are read ahead, in total; also at most half of the free disk space."""
_PAUSE_S = 0.2
_BATCH_ROWS = 10_000
_BATCH_BYTES = 16 << 20
"""Rows, and bytes of stored values, that are decoded at once."""

Report = Callable[[int], None]
"""Called now and then with the number of rows so far."""


class Part(NamedTuple):
    """The rows of one rehydrator or folder, at its milestone."""

    place: str
    token: Token
    milestone: dict[str, Any]
    partitions: Partitions | None
    selection: Selection | None
    """What it holds of these; None for all."""
    batches: Iterator[Batch]
    standby: bool = False
    """True if it answered in place of its owner."""
    replica: bool = False
    ahead: Callable[[Path, int], None] = lambda _folder, _bytes_max: None
    """Read up to this many bytes ahead into this folder while other parts are read."""

    @property
    def by_itself(self) -> bool:
        """True for a replica that holds only a part of the state."""
        return self.replica and not (self.partitions is None and self.selection is None)


class Written(NamedTuple):
    path: Path
    token: Token
    partitions: Partitions | None
    rows: int
    bytes: int
    selection: Selection | None
    by_itself: bool
    standbys: tuple[str, ...]
    """The standbys that answered in place of an owner."""


def write(job: Job, parts: Sequence[Part], out: Path, report: Report = lambda _rows: None) -> list[Written]:
    """Write all parts to one file; if `out` is a folder, each part to a file of its own in it.

    A file is complete or absent. Raise UsageError if one file would mix several milestones, or several replicas
    with a selection.
    """
    if out.is_dir():
        written: list[Written] = []
        for number, part in enumerate(parts):
            path = out / _name(job, part, number, len(parts))
            before = sum(one.rows for one in written)
            written.append(_file(job, [part], path, report, before, later=parts[number + 1 :]))
        return written
    if len({part.token for part in parts}) > 1:
        raise UsageError(f"{out}: one file holds one milestone, but the parts have several: {_list_parts(parts)}")
    if len(parts) > 1 and any(part.selection for part in parts):
        raise UsageError(f"{out}: each replica holds a selection: name one of them, or a folder")
    return [_file(job, parts, out, report)]


def _name(job: Job, part: Part, number: int, count: int) -> str:
    of = f".{number + 1}-of-{count}" if count > 1 else ""
    return f"{job.name}.{part.token.generation}.{part.token.sequence}{of}.parquet"


def _file(
    job: Job, parts: Sequence[Part], path: Path, report: Report, before: int = 0, later: Sequence[Part] = ()
) -> Written:
    held = parts[0].partitions if len(parts) == 1 else None  # together they hold each partition once
    bounds = [lower for part in parts if (lower := part.milestone.get("lower_bound")) is not None]
    # Rows above the highest bound are complete in every partition.
    milestone = {**parts[0].milestone, "lower_bound": max(bounds, key=from_iso, default=None)}
    schema = schema_of(job, row_metadata(job.name, milestone, held, parts[0].selection))
    with parquet_file(path, schema) as file:
        _read_ahead([*parts[1:], *later], path.parent)
        for part in parts:
            for batch in part.batches:
                file.add(batch)
                report(before + file.rows)
    first, standbys = parts[0], tuple(part.place for part in parts if part.standby)
    size = path.stat().st_size
    return Written(path, first.token, held, file.rows, size, first.selection, first.by_itself, standbys)


def _read_ahead(parts: Sequence[Part], folder: Path) -> None:
    # A rehydrator cancels an export that takes too long, and keeps the milestone's files until then.
    if parts:
        bytes_max = min(AHEAD_BYTES_MAX, shutil.disk_usage(folder).free // 2) // len(parts)
        for part in parts:
            part.ahead(folder, bytes_max)


def _batches(job: Job, pieces: Iterable[RowColumns]) -> Generator[Batch]:
    return batches(job, schema_of(job, {}), joined(pieces, _BATCH_ROWS, _BATCH_BYTES))


@contextmanager
def in_folder(job: Job, generation: Generation, data_dir: Path) -> Iterator[Part]:
    """Read a folder made by `cutwater restore`, or that of a stopped rehydrator. Raise UsageError if it is missing
    or incomplete; MachineError while a process serves from it."""
    folder = folder_of(data_dir, job.name, generation)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not there: create it with 'cutwater restore', or name another --data-dir")
    held, selection = part_in(folder)
    store = Store(folder, job, generation, partitions=held, may_empty=False, selection=selection)
    with closing(View(store, job)) as view:
        if view.milestone is None:
            raise UsageError(f"{folder} holds no whole milestone: run 'cutwater restore' again, which continues")
        milestone, pieces = view.pieces()
        # Closed at the end, since open rows would keep the folder locked.
        with closing(_batches(job, map(columns_of, pieces))) as made:
            told = milestone_fields(milestone, view.horizon_ms(milestone), view.lower_ms(milestone))
            yield Part(str(folder), milestone.token, told, held, selection, made)


@contextmanager
def open_rehydrators(
    job: Job,
    asked: Sequence[Holders],
    headers: Mapping[str, str],
    at_least: Token | None = None,
    several: bool = False,
) -> Iterator[list[Part]]:
    """Read rehydrators that together hold each partition once, all at the same milestone.

    A read-only replica of a part is accepted only alone, or with `several`.

    `asked`: the holders of each part; if the first is down or behind, another of them answers.
    `at_least`: wait until they show this milestone. `several`: each part makes a file of its own; if the parts do
    not reach the same milestone, each is read at its own.
    Raise UnavailableError if no holder of a part answers, or the milestones stay different; UsageError if the
    rehydrators are not of one job.
    """
    if at_least and (who := find_late(asked, headers, at_least)):
        raise UnavailableError(f"{who} did not reach {at_least} within {WAIT_MS / 1000:g} s: see its /readyz")
    stands = False
    for left in reversed(range(TRIES)):
        with ExitStack() as stack:
            parts = [_open_first(stack, job, holders, headers) for holders in asked]
            _require_whole_once(job, parts, several)
            newest = _newest(parts)
            if all(part.token == newest for part in parts) or (several and (stands or not left)):
                yield parts
                return
        if stands:
            break
        time.sleep(_PAUSE_S)
        stands = find_late(asked, headers, newest) is not None
    raise UnavailableError(
        f"the peers were at different milestones in {TRIES - left} tries: {_list_parts(parts)}. Try again, or "
        "name a folder with --out: then each makes a file at its own milestone"
    )


def _require_whole_once(job: Job, parts: Sequence[Part], several: bool) -> None:
    alone = several or len(parts) == 1
    held = {part.place: part.partitions for part in parts if not (alone and part.by_itself)}
    if held:
        require_whole_once(held, job.shards.partitions)


def _open_first(stack: ExitStack, job: Job, holders: Holders, headers: Mapping[str, str]) -> Part:
    # If a rehydrator already runs as many exports as it allows, another one answers.
    problems: list[str] = []
    for url in in_order(holders, headers):
        try:
            return stack.enter_context(_open_export(job, url, headers))
        except UnavailableError as problem:
            problems.append(str(problem))
    raise UnavailableError("; ".join(problems))


@contextmanager
def _open_export(job: Job, url: str, headers: Mapping[str, str]) -> Iterator[Part]:
    with open_export(url, headers) as found:
        token = Token.parse(str(found.milestone["token"]))
        held = None if found.partitions is None else frozenset(found.partitions)
        selection = Selection.of_object(found.selection)
        rows = _batches(job, found.pieces)
        standby = found.milestone.get("standby") is True
        yield Part(url, token, found.milestone, held, selection, rows, standby, found.replica is True, found.ahead)


def _newest(parts: Iterable[Part]) -> Token:
    tokens = [part.token for part in parts]
    if len({token.generation for token in tokens}) > 1:
        raise UsageError(f"these rehydrators show several generations, or several jobs: {_list_parts(parts)}")
    return max(tokens, key=lambda token: token.sequence)


def _list_parts(parts: Iterable[Part]) -> str:
    return ", ".join(f"{part.place} at {part.token}" for part in parts)
