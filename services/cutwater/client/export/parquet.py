"""A view at one milestone as Parquet: where its rows come from, and which files they make."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.adapters.columnar.arrow import Batch, schema_of
from cutwater.adapters.columnar.parquet import parquet_file
from cutwater.client.export.part_owners import WAIT_MS, Holders, in_order, late
from cutwater.client.export.stream import exported
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.state.partition_share import Partitions, require_whole_once
from cutwater.core.state.selection import Selection
from cutwater.views.query.arrow_batches import batches
from cutwater.views.query.milestone_json import about, described
from cutwater.views.query.output_json import from_iso
from cutwater.views.query.view import View
from cutwater.views.store.store import Store, folder_of, part_in

TRIES = 5
"""Times that peers are asked until all show the same milestone."""
AHEAD_BYTES_MAX = 64 << 30
"""Of answers that are read ahead, all together; and never more than half of what the disk has left."""
_PAUSE_S = 0.2

Report = Callable[[int], None]
"""Told now and then how many rows there are so far."""


class Part(NamedTuple):
    """The rows of one place, at the milestone that it holds."""

    place: str
    token: Token
    milestone: dict[str, Any]
    partitions: Partitions | None
    selection: Selection | None
    """What it holds of these; None for all."""
    batches: Iterator[Batch]
    standby: bool = False
    """Was it asked in the place of its owner?"""
    replica: bool = False
    ahead: Callable[[Path, int], None] = lambda _folder, _bytes_max: None
    """Have it read on into this folder, so many bytes, while others are read."""

    @property
    def by_itself(self) -> bool:
        """Is it a part that belongs to no whole: of a replica that lacks the rest?"""
        return self.replica and not (self.partitions is None and self.selection is None)


class Written(NamedTuple):
    """One file."""

    path: Path
    token: Token
    partitions: Partitions | None
    rows: int
    bytes: int
    selection: Selection | None
    by_itself: bool
    standbys: tuple[str, ...]
    """Who answered in the place of an owner."""


def write(job: Job, parts: Sequence[Part], out: Path, report: Report = lambda _rows: None) -> list[Written]:
    """All parts as one file; where `out` is a folder, each as a file of its own in it.

    Raises UsageError where parts of several milestones, or replicas of a part each, would make one file. A file is
    there whole or not at all.
    """
    if out.is_dir():
        written: list[Written] = []
        for number, part in enumerate(parts):
            path = out / _name(job, part, number, len(parts))
            before = sum(one.rows for one in written)
            written.append(_file(job, [part], path, report, before, later=parts[number + 1 :]))
        return written
    if len({part.token for part in parts}) > 1:
        raise UsageError(f"{out}: one file holds one milestone, and these are several: {_shown(parts)}")
    if len(parts) > 1 and any(part.selection for part in parts):
        raise UsageError(f"{out}: replicas hold a selection each: name one of them, or a folder")
    return [_file(job, parts, out, report)]


def _name(job: Job, part: Part, number: int, count: int) -> str:
    of = f".{number + 1}-of-{count}" if count > 1 else ""
    return f"{job.name}.{part.token.generation}.{part.token.sequence}{of}.parquet"


def _file(
    job: Job, parts: Sequence[Part], path: Path, report: Report, before: int = 0, later: Sequence[Part] = ()
) -> Written:
    held = parts[0].partitions if len(parts) == 1 else None  # together they hold each partition once
    bounds = [lower for part in parts if (lower := part.milestone.get("lower_bound")) is not None]
    # What is above the highest bound is there, of every partition.
    milestone = {**parts[0].milestone, "lower_bound": max(bounds, key=from_iso, default=None)}
    schema = schema_of(job, about(job.name, milestone, held, parts[0].selection))
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
    """A rehydrator breaks off who reads for too long, and keeps a milestone's files till then. Raises OSError."""
    if parts:
        bytes_max = min(AHEAD_BYTES_MAX, shutil.disk_usage(folder).free // 2) // len(parts)
        for part in parts:
            part.ahead(folder, bytes_max)


@contextmanager
def in_folder(job: Job, generation: Generation, data_dir: Path) -> Iterator[Part]:
    """What `cutwater restore` has made, or a rehydrator that does not run now.

    Raises UsageError where there is none or it is not whole; MachineError while somebody serves from it.
    """
    folder = folder_of(data_dir, job.name, generation)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not there: make it with 'cutwater restore', or name another --data-dir")
    held, selection = part_in(folder)
    store = Store(folder, job, generation, partitions=held, may_empty=False, selection=selection)
    with closing(View(store, job)) as view:
        if view.milestone is None:
            raise UsageError(f"{folder} holds no whole milestone: run 'cutwater restore' again, which goes on")
        milestone, rows = view.stored()
        with closing(batches(job, schema_of(job, {}), rows)) as made:  # pinned rows would keep the folder locked
            told = described(milestone, view.lower_ms(milestone))
            yield Part(str(folder), milestone.token, told, held, selection, made)


@contextmanager
def served(
    job: Job,
    asked: Sequence[Holders],
    headers: Mapping[str, str],
    at_least: Token | None = None,
    several: bool = False,
) -> Iterator[list[Part]]:
    """What rehydrators show, which together hold each partition once; all at the same milestone.

    A replica of a part is one of them only where it is asked alone, or where each makes a file of its own.

    `asked`: for each part who holds it; where the first is away or behind, another one of them answers.
    `at_least`: not before they show this one. `several`: each makes a file of its own; where they do not come to
    the same one, each at its own.
    Raises UnavailableError where nobody answers for a part, or they do not come to the same; UsageError where they
    are not those of one job.
    """
    if at_least and (who := late(asked, headers, at_least)):
        raise UnavailableError(f"{who} did not come to {at_least} within {WAIT_MS / 1000:g} s: see its /readyz")
    stands = False
    for left in reversed(range(TRIES)):
        with ExitStack() as stack:
            parts = [_opened(stack, job, holders, headers) for holders in asked]
            _require_whole_once(job, parts, several)
            newest = _newest(parts)
            if all(part.token == newest for part in parts) or (several and (stands or not left)):
                yield parts
                return
        if stands:
            break
        time.sleep(_PAUSE_S)
        stands = late(asked, headers, newest) is not None
    raise UnavailableError(
        f"the peers were at different milestones in {TRIES - left} tries: {_shown(parts)}. Try again, or name a "
        "folder with --out: then each makes a file at its own"
    )


def _require_whole_once(job: Job, parts: Sequence[Part], several: bool) -> None:
    alone = several or len(parts) == 1
    held = {part.place: part.partitions for part in parts if not (alone and part.by_itself)}
    if held:
        require_whole_once(held, job.shards.partitions)


def _opened(stack: ExitStack, job: Job, holders: Holders, headers: Mapping[str, str]) -> Part:
    """Of the first that answers; another one may have as many exports as it takes."""
    problems: list[str] = []
    for url in in_order(holders, headers):
        try:
            return stack.enter_context(_served(job, url, headers))
        except UnavailableError as problem:
            problems.append(str(problem))
    raise UnavailableError("; ".join(problems))


@contextmanager
def _served(job: Job, url: str, headers: Mapping[str, str]) -> Iterator[Part]:
    with exported(url, headers) as found:
        token = Token.parse(str(found.milestone["token"]))
        held = None if found.partitions is None else frozenset(found.partitions)
        selection = Selection.of_object(found.selection)
        rows = batches(job, schema_of(job, {}), found.rows)
        standby = found.milestone.get("standby") is True
        yield Part(url, token, found.milestone, held, selection, rows, standby, found.replica is True, found.ahead)


def _newest(parts: Iterable[Part]) -> Token:
    tokens = [part.token for part in parts]
    if len({token.generation for token in tokens}) > 1:
        raise UsageError(f"these show generations of one job, or two jobs: {_shown(parts)}")
    return max(tokens, key=lambda token: token.sequence)


def _shown(parts: Iterable[Part]) -> str:
    return ", ".join(f"{part.place} at {part.token}" for part in parts)
