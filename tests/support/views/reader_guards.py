"""The guards of whoever reads a changelog, in each way of reading: a scene for each guard, a hole for each cell.

With the guard a reader comes to the second milestone of the scene and is right, or stops, as the guard says;
without it the same reader does otherwise. `table` is in docs/GUARANTEES.md; test_guards_by_reader.py tries each
cell, tests/spark/test_guards_of_the_seed.py those of Spark's seed. `output_guards` has those of the output.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from cutwater.client import from_changelog as client
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.bulk.newest_rows import NewestRows
from cutwater.views.bulk.newest_rows_native import NativeNewestRows
from cutwater.views.changelog import milestone_rows
from cutwater.views.changelog.milestone_rows import Updates
from cutwater.views.changelog.range_reader import Range, Ranges
from cutwater.views.follow import applier
from cutwater.views.follow.applier import Applier
from support.views.changelogs import GENERATION
from support.views.output_guards import OUTPUT_GUARDS
from support.views.reader_holes import (
    ANYBODY,
    ANYBODY_IN_BULK,
    NO_HORIZON,
    Hole,
    as_if_later,
    below_any_horizon,
    blind,
    both,
    ends_early,
    everything,
    no_horizon_told,
    of_any_writer,
    of_seed,
    off,
    past_the_end,
    past_the_end_natively,
    pieces_of_any_writer,
    up_to_the_end,
)
from support.views.reader_scenes import (
    TWO_DAYS_MS,
    Scene,
    Writes,
    above_the_cut,
    by_somebody,
    closed,
    end_missing,
    live_row_deleted,
    of_another_topic,
    other_schema,
    other_values,
    overtaken,
    repeated,
    row_lost,
    whole,
    without_one,
)

RIGHT, WRONG = "right", "wrong"
STOPS = frozenset({"DivergenceError", "LostRecordsError"})
WAITS = frozenset({"Overtaken", "waits"})

STEP, CHUNKS, JUMP = "view: step", "view: step in chunks", "view: jump"
BULK, NATIVE, SNAPSHOT = "view: bulk", "view: bulk, native", "view: a snapshot's tail"
PUBLISHED, PARTS, FAR_PUBLISHED = "publisher: step", "publisher: step in parts", "publisher: jump"
CLIENT, OUTPUT, SEED = "`committed()` on the changelog", "`committed()` on the output", "Spark's seed"
READERS = (STEP, CHUNKS, JUMP, BULK, NATIVE, SNAPSHOT, PUBLISHED, PARTS, FAR_PUBLISHED, CLIENT, OUTPUT, SEED)

VIEWS, STEPS = (STEP, CHUNKS, JUMP, SNAPSHOT), (STEP, CHUNKS, PUBLISHED, PARTS)
JUMPS = (JUMP, BULK, NATIVE, SNAPSHOT, FAR_PUBLISHED, CLIENT, SEED)
UPDATES = (PUBLISHED, PARTS, FAR_PUBLISHED, CLIENT)


def cells(*parts: tuple[tuple[str, ...] | str, Hole | str]) -> dict[str, Hole | str]:
    """By reader: a hole, or why there is none."""
    found: dict[str, Hole | str] = {}
    for readers, what in parts:
        found |= dict.fromkeys((readers,) if isinstance(readers, str) else readers, what)
    return found


@dataclass(frozen=True)
class Guard:
    """`holds`: what a reader does with it; without it, it does anything else."""

    name: str
    go_on: Writes
    holds: frozenset[str]
    by_reader: dict[str, Hole | str]
    begin: Writes = whole
    ahead_ms: int = 0

    @property
    def scene(self) -> Scene:
        return Scene(self.go_on, self.begin, self.ahead_ms)

    @property
    def of_jumps(self) -> bool:
        """Makes a step no sense?"""
        return isinstance(self.by_reader[STEP], str)


NO_CUTS = "the output has no cuts: a transaction is seen whole, or not at all"
ONE_WRITER = "the output has one writer, whose id fences those before it"
ONLY_OWN = "a step takes the rows of the milestone's own writer alone"
EVERY_ROW = "a jump takes every row of the generation, whichever epoch wrote it"
PROVED = "a step proves every row that it takes, by count and digest"
NOTHING_TO_TAKE_BACK = "an output keeps what it was given: a horizon takes nothing back"
NO_OUTPUT = "it reads the changelog, not the output"
NO_DELETIONS = "nobody is told of a deletion: what was published stays right"


def strangers_cells(found: str) -> dict[str, Hole | str]:
    """Of rows that another writer left below the cut; the seed counts them as `found`."""
    return cells(
        (STEPS, ONLY_OWN),
        ((JUMP, SNAPSHOT, FAR_PUBLISHED, CLIENT), ANYBODY),
        (BULK, ANYBODY_IN_BULK),
        (NATIVE, both(ANYBODY_IN_BULK, off(NativeNewestRows, "take", blind))),
        (OUTPUT, ONE_WRITER),
        (SEED, of_seed(found)),
    )


GUARDS = (
    Guard(
        "no row above the cut",
        above_the_cut,
        frozenset({RIGHT}),
        cells(
            ((*VIEWS, *UPDATES), off(Range, "_below", everything)),
            (BULK, off(NewestRows, "take", past_the_end)),
            (NATIVE, off(NativeNewestRows, "take", past_the_end_natively)),
            (OUTPUT, NO_CUTS),
            (SEED, of_seed("above the cut")),
        ),
    ),
    Guard(
        "an end below the cut means wait",
        end_missing,
        frozenset({*STOPS, "UnavailableError"}),
        cells(
            ((*VIEWS, *UPDATES), off(Range, "_is_done", ends_early)),
            ((BULK, NATIVE), off(BulkLoader, "load", up_to_the_end)),
            (OUTPUT, "its end markers say what is whole: see the guards of the output below"),
            (SEED, of_seed("end below the cut")),
        ),
    ),
    Guard(
        "no row of another attempt",
        repeated,
        frozenset({RIGHT}),
        cells(
            (JUMPS, EVERY_ROW),
            ((STEP, CHUNKS, SNAPSHOT), off(Applier, "_rows", of_any_writer)),
            ((PUBLISHED, PARTS), off(Updates, "_told_apart", pieces_of_any_writer)),
            (OUTPUT, ONE_WRITER),
        ),
    ),
    Guard(
        "no row of another generation",
        by_somebody(b"g9-local-12345678/1/0"),
        STOPS,
        strangers_cells("foreign"),
    ),
    Guard(
        "no row of whoever came later",
        by_somebody(f"{GENERATION}/1/5".encode()),
        STOPS,
        strangers_cells("later"),
    ),
    Guard(
        "count and digest",
        row_lost,
        STOPS,
        cells(
            ((*VIEWS, BULK, NATIVE), off(applier, "prove")),
            (UPDATES, off(milestone_rows, "prove")),
            (
                OUTPUT,
                "an end marker says how many rows stand before it: see the guards of the output below",
            ),
            (SEED, of_seed("count and digest")),
        ),
    ),
    Guard(
        "leaders at a jump",
        of_another_topic,
        STOPS,
        cells(
            (STEPS, PROVED),
            ((JUMP, BULK, NATIVE, SNAPSHOT, FAR_PUBLISHED, CLIENT), off(Ranges, "require_kept")),
            (OUTPUT, NO_CUTS),
            (SEED, of_seed("leaders")),
        ),
        other_values,
    ),
    Guard(
        "containment",
        overtaken,
        WAITS,
        cells(
            ((*VIEWS, BULK, NATIVE), off(applier, "require_whole")),
            (UPDATES, off(milestone_rows, "require_whole")),
            (OUTPUT, "an output is not compacted"),
            (SEED, of_seed("containment")),
        ),
        without_one,
        TWO_DAYS_MS,
    ),
    Guard(
        "no tombstone above the horizon",
        live_row_deleted,
        STOPS,
        cells(
            (VIEWS, off(Applier, "_rows", below_any_horizon)),
            ((BULK, NATIVE), off(BulkLoader, "_task", as_if_later)),
            ((*UPDATES, OUTPUT), NO_DELETIONS),
            (SEED, of_seed("deleted")),
        ),
        without_one,
    ),
    Guard(
        "nothing below the horizon",
        closed,
        frozenset({RIGHT}),
        cells(
            ((*VIEWS, BULK, NATIVE), NO_HORIZON),
            ((PUBLISHED, PARTS, FAR_PUBLISHED, OUTPUT), NOTHING_TO_TAKE_BACK),
            (CLIENT, off(client._Reading, "_changes", no_horizon_told)),
            (SEED, of_seed("below the horizon")),
        ),
    ),
    Guard(
        "the job file's schema",
        other_schema,
        STOPS,
        cells(
            ((*VIEWS, BULK, NATIVE), off(applier, "require_schema")),
            (UPDATES, off(milestone_rows, "require_schema")),
            (OUTPUT, "its records name their own schema"),
            (SEED, "the driver compares it before it reads anything, `require_startable`"),
        ),
    ),
)


def tried(*readers: str) -> list[tuple[Guard, str]]:
    """The cells that are tried, of some readers."""
    return [(one, reader) for one in GUARDS for reader in readers if not isinstance(one.by_reader[reader], str)]


def table() -> str:
    """The table of docs/GUARANTEES.md, with the reasons below it."""
    reasons = list(dict.fromkeys(why for one in GUARDS for why in one.by_reader.values() if isinstance(why, str)))
    reasons.append(NO_OUTPUT)
    lines = [f"| guard | {' | '.join(READERS)} |", "|---" * (len(READERS) + 1) + "|"]
    for guard in GUARDS:
        found = [guard.by_reader[reader] for reader in READERS]
        told = ["tried" if not isinstance(one, str) else f"({reasons.index(one) + 1})" for one in found]
        lines.append(f"| {guard.name} | {' | '.join(told)} |")
    for one in OUTPUT_GUARDS:
        told = ["tried" if reader == OUTPUT else f"({len(reasons)})" for reader in READERS]
        lines.append(f"| {one.name} | {' | '.join(told)} |")
    return "\n".join(
        [*lines, "", *(f"{number}. {why[0].upper()}{why[1:]}." for number, why in enumerate(reasons, 1))]
    )


def hole_of(guard: Guard, reader: str, open_: bool) -> AbstractContextManager[Any]:
    hole = guard.by_reader[reader]
    assert not isinstance(hole, str)
    return hole() if open_ else nullcontext()


if __name__ == "__main__":
    print(table())
