"""From runs to figures: ratios over pairs, the JSON document, the Markdown table. Plain values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

DURABLE, READABLE = "durable", "readable"
"""What ends a drain: results are durable, or a `read_committed` consumer has received the last of them."""


@dataclass(frozen=True)
class Run:
    """One contender's drain of the backlog, in one pair."""

    contender: str
    pair: int
    events: int
    start_s: float
    """From the process's start to the first epoch or record."""
    drain_s: float
    """From there until the last event's results are durable, or readable: see `until`."""
    cpu_s: float
    """CPU time of the process tree during the drain; the broker's is apart."""
    start_cpu_s: float
    broker_cpu_s: float
    memory_mb_peak: float
    exact: bool
    fault: str | None = None
    """What was not exact."""
    warm_events_per_s: float | None = None
    """Without the first two epochs, in which the JVM compiles; only where there are epochs."""
    shape: str | None = None
    """Of the windows, where a benchmark has several."""
    until: str | None = None
    """`durable` or `readable`, where a benchmark has both."""
    reader_cpu_s: float | None = None
    """CPU time of the harness's own consumer of the output, which is in no account; only where it reads along."""

    @property
    def events_per_s(self) -> float:
        return self.events / self.drain_s

    @property
    def events_per_cpu_s(self) -> float:
        return self.events / max(self.cpu_s, 1e-3)


class Paired(Protocol):
    """What every run has."""

    @property
    def contender(self) -> str: ...
    @property
    def pair(self) -> int: ...
    @property
    def exact(self) -> bool: ...


R = TypeVar("R", bound=Paired)
Drain = TypeVar("Drain", bound=Run)


@dataclass(frozen=True)
class Figure(Generic[R]):
    """A rate of ours beside the same rate of a peer: the greater, the better."""

    name: str
    peer: str
    of: Callable[[R], float | None]

    @property
    def label(self) -> str:
        return f"{self.name}/{self.peer}"


def ratios(runs: Sequence[R], ours: str, figures: Sequence[Figure[R]]) -> dict[str, dict[str, float]]:
    """Ours divided by the peer's, pair by pair: above 1 means that we are better.

    Pairs that lack one of the two are left out, and a figure without any pair too.
    """
    by_place = {(run.contender, run.pair): run for run in runs}
    found = {}
    for figure in figures:
        quotients = []
        for pair in sorted({run.pair for run in runs}):
            mine, theirs = by_place.get((ours, pair)), by_place.get((figure.peer, pair))
            rates = (mine and figure.of(mine), theirs and figure.of(theirs))
            if rates[0] and rates[1]:
                quotients.append(rates[0] / rates[1])
        if quotients:
            found[figure.label] = spread(quotients)
    return found


def spread(quotients: Sequence[float]) -> dict[str, float]:
    return {
        "median": round(median(quotients), 3),
        "min": round(min(quotients), 3),
        "max": round(max(quotients), 3),
        "pairs": len(quotients),
    }


def with_rates(run: Run) -> dict[str, Any]:
    """A run as its result file has it."""
    rates = {"events_per_s": run.events_per_s, "events_per_cpu_s": run.events_per_cpu_s}
    return {name: round(one, 3) if isinstance(one, float) else one for name, one in (asdict(run) | rates).items()}


def document(
    benchmark: str,
    machine: Mapping[str, Any],
    runs: Sequence[R],
    found: Mapping[str, Mapping[str, float]],
    plain: Callable[[Any], dict[str, Any]] = with_rates,
) -> dict[str, Any]:
    """The result file, in the form that all benchmarks share. `plain`: how it has a run."""
    return {
        "benchmark": benchmark,
        "machine": dict(machine),
        "exact": bool(runs) and all(run.exact for run in runs),
        "ratios": {name: dict(one) for name, one in found.items()},
        "runs": [plain(run) for run in runs],
    }


Column = tuple[str, Callable[[R], float | None], str]
"""A column of the table: its name, the figure, how it is written."""

COLUMNS: tuple[Column[Run], ...] = (
    ("events/s", lambda run: run.events_per_s, ",.0f"),
    ("warm events/s", lambda run: run.warm_events_per_s, ",.0f"),
    ("events per CPU-s", lambda run: run.events_per_cpu_s, ",.0f"),
    ("drain s", lambda run: run.drain_s, ".1f"),
    ("CPU-s", lambda run: run.cpu_s, ".1f"),
    ("broker CPU-s", lambda run: run.broker_cpu_s, ".1f"),
    ("start s", lambda run: run.start_s, ".1f"),
    ("start CPU-s", lambda run: run.start_cpu_s, ".1f"),
    ("peak MB", lambda run: run.memory_mb_peak, ",.0f"),
)


def markdown(
    title: str,
    written: Mapping[str, Any],
    runs: Sequence[Drain],
    limits: Sequence[str],
    columns: Sequence[Column[Drain]] = COLUMNS,
    of: Callable[[Drain], str] = lambda run: run.contender,
) -> str:
    """The same for people: medians per contender, then the ratios, then what to hold them against.

    `of`: what runs have in common whose medians are taken.
    """
    lines = [*heading(title, written), *medians(runs, columns, of)]
    lines += ["", "A ratio above 1 means that we are better.", "", *ratio_table(written["ratios"])]
    faults = [f"- {of(run)}, pair {run.pair}: {run.fault}" for run in runs if run.fault]
    lines += ["", *(f"- {limit}" for limit in limits), *faults]
    return "\n".join(lines) + "\n"


def heading(title: str, written: Mapping[str, Any]) -> list[str]:
    """The first lines of a page: what was measured on which machine, and whether every run was exact."""
    machine = ", ".join(f"{name} {value}" for name, value in written["machine"].items())
    return [f"# {title}", "", f"{machine}; every run exact: {'yes' if written['exact'] else '**no**'}.", ""]


def medians(
    runs: Sequence[R], columns: Sequence[Column[R]], of: Callable[[R], str] = lambda run: run.contender
) -> list[str]:
    """A table of the medians of runs that have `of` in common."""
    rows = []
    for name in dict.fromkeys(map(of, runs)):
        row = [name]
        for _, value, form in columns:
            known = [one for one in (value(run) for run in runs if of(run) == name) if one is not None]
            row.append(format(median(known), form) if known else "-")
        rows.append(row)
    return table(["median", *(name for name, _, _ in columns)], rows)


def values_text(run: R, columns: Sequence[Column[R]]) -> str:
    """A run's figures in a line."""
    return ", ".join(f"{name} {value(run):{form}}" for name, value, form in columns)


def ratio_table(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    parts = ("median", "min", "max", "pairs")
    return table(["ratio", *parts], [[name, *(str(one[part]) for part in parts)] for name, one in found.items()])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """In Markdown; all columns but the first are figures."""
    return [
        f"| {' | '.join(head)} |",
        f"|---{'|---:' * (len(head) - 1)}|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
