"""The figures of a hand-over, from moments and records, and how they are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks.generation_handover.gaps import Gap, Sight, change, inside, longest, summary
from benchmarks.generation_handover.readers import OfTheApi, OfTheOutput
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

LIMIT_MORE_S, LIMIT_MORE_KEYS = (2.0, 5.0), 1_000_000
"""So much a pause may be longer than the interval of milestones, with up to so many keys and with more. The limit
is shown, not asserted."""


PAUSES = (
    ("steady: median", ("steady_s", "median")),
    ("steady: longest", ("steady_s", "max")),
    ("while it catches up: longest", ("catching_up_longest_s",)),
    ("**from the verb `promote` on: longest**", ("promotion_longest_s",)),
    ("of the change of generations", ("change", "seconds")),
    ("… until the promotion stands on the stream", ("change", "to_the_promotion_s")),
    ("… from there to the reader", ("change", "behind_it_s")),
    ("… of that, until the publisher has the two states to compare", ("change", "states_read_s")),
)
"""A row of the table, and where its figure stands."""


@dataclass(frozen=True)
class Moments:
    """When what was done; by a clock that never goes back, in seconds."""

    generation: Generation
    offset_s: float
    """Add it for seconds since 1970."""
    steady_s: float
    began_s: float
    """The verb that claims."""
    asked_s: float
    """The verb that promotes."""
    end_s: float

    def at_s(self, wall_ms: float) -> float:
        return wall_ms / 1000 - self.offset_s


@dataclass(frozen=True)
class Records:
    """What the topics say of it; times are those of this machine's wall clock."""

    claimed_ms: int
    start: Mapping[str, Any]
    """The driver's, by the trail."""
    first: Milestone
    """Of the candidate, before it was promoted."""
    asked_ms: int
    stream: Sequence[Milestone]
    compared_ms: float | None
    """When the publisher had the two states to compare, as its log says."""

    def promoted_s(self, moments: Moments) -> float:
        """When the promotion stood on the commit stream."""
        first = next(one for one in self.stream if one.generation == moments.generation)
        return moments.at_s(first.committed_ms)


def limit_more_s(keys: int) -> float:
    """What a pause may take above the interval of milestones."""
    few, many = LIMIT_MORE_S
    return few if keys <= LIMIT_MORE_KEYS else many


def figures(moments: Moments, records: Records, api: OfTheApi, output: OfTheOutput, keys: int) -> dict[str, Any]:
    """Everything that was measured."""
    before = [moments.at_s(one.committed_ms) for one in records.stream]
    steady = [at_s for at_s in before if moments.steady_s <= at_s < moments.began_s]
    milestones = summary([two - one for one, two in pairwise(steady)])
    promoted_s = records.promoted_s(moments)
    readers = {"api": api.seen, "output": output.seen}
    told_of = {name: _reader(moments, promoted_s, seen) for name, seen in readers.items()}
    if records.compared_ms is not None:
        told_of["output"]["change"]["states_read_s"] = moments.at_s(records.compared_ms) - promoted_s
    return {
        "milestones_s": milestones,
        "limit_s": milestones["median"] + limit_more_s(keys) if milestones else None,
        "readers": told_of,
        "answers_ms": {
            "steady": _slowest_ms(api, moments.steady_s, moments.began_s),
            "catching up": _slowest_ms(api, moments.began_s, moments.asked_s),
            "promotion": _slowest_ms(api, moments.asked_s, moments.end_s),
        },
        "steps": [{"step": name, "seconds": seconds} for name, seconds in steps(moments, records)],
        "raw": {
            **{name: [[one.at_s, str(one.token)] for one in seen] for name, seen in readers.items()},
            "stream": [[moments.at_s(one.committed_ms), str(one.token)] for one in records.stream],
            "moments": {
                name: getattr(moments, name) for name in ("steady_s", "began_s", "asked_s", "end_s", "offset_s")
            },
        },
    }


def steps(moments: Moments, records: Records) -> Iterator[tuple[str, float]]:
    """What the time from the claim to the promotion went by, in its order."""
    at_s, start, first = moments.at_s, records.start, records.first
    begun_s, ran_s = at_s(start["begun_ms"]), at_s(start["begun_ms"] + start["took_ms"])
    yield "the verb that claims", at_s(records.claimed_ms) - moments.began_s
    yield "starting the driver's process", begun_s - at_s(records.claimed_ms)
    for step in start["steps"]:
        yield f"driver: {step['name']}", step["took_ms"] / 1000
    yield "starting the query", at_s(first.epoch_started_ms) - ran_s
    yield "the first epoch, to its milestone", at_s(first.committed_ms) - at_s(first.epoch_started_ms)
    yield "catching up", moments.asked_s - at_s(first.committed_ms)
    yield "the verb that promotes", at_s(records.asked_ms) - moments.asked_s
    yield (
        "waiting for a milestone that may follow, and the promotion",
        records.promoted_s(moments) - at_s(records.asked_ms),
    )


def _reader(moments: Moments, promoted_s: float, seen: Sequence[Sight]) -> dict[str, Any]:
    """Of one reader: how often it had something new before, and how long it had not behind that."""
    steady = [one.seconds for one in inside(seen, moments.steady_s, moments.began_s)]
    over = change(seen, moments.generation)
    if over is None:
        raise UnavailableError(f"{moments.generation} was not seen")
    return {
        "steady_s": summary(steady),
        "catching_up_longest_s": _seconds(longest(seen, moments.began_s, moments.asked_s)),
        "promotion_longest_s": _seconds(longest(seen, moments.asked_s, moments.end_s)),
        "change": {
            "seconds": over.seconds,
            "last": str(over.last),
            "next": str(over.next),
            "to_the_promotion_s": max(0.0, promoted_s - over.from_s),
            "behind_it_s": over.to_s - max(promoted_s, over.from_s),
        },
    }


def _seconds(gap: Gap | None) -> float | None:
    return gap.seconds if gap else None


def _slowest_ms(api: OfTheApi, from_s: float, to_s: float) -> float:
    return max((took for at, took in api.answers if from_s <= at < to_s), default=0.0) * 1000


def result_lines(title: str, written: Mapping[str, Any]) -> list[str]:
    """For people: the pauses, what the readers' last one is made of, and the steps before it."""
    head = ", ".join(f"{name} {value}" for name, value in written["machine"].items())
    verdict = "yes" if written["exact"] else f"**no**: {written['fault']}"
    before, after = written["partitions"]
    milestones, limit = written["milestones_s"], written["limit_s"]
    lines = [f"# {title}", "", f"{head}; exact: {verdict}.", ""]
    lines += [
        f"{written['keys']:,} keys, {written['rate']:,} events/s, {before} → {after} partitions. Steady: a "
        f"milestone every {milestones['median']:.2f} s (p99 {milestones['p99']:.2f}); a pause's limit {limit:.1f}."
    ]
    lines += ["", "| s without a newer milestone | API | output |", "|---|---:|---:|"]
    api, output = written["readers"]["api"], written["readers"]["output"]
    lines += [f"| {name} | {_figure(api, path)} | {_figure(output, path)} |" for name, path in PAUSES]
    slowest = ", ".join(f"{name} {ms:,.0f} ms" for name, ms in written["answers_ms"].items())
    lines += ["", f"The API's slowest answer: {slowest}."]
    whole = sum(one["seconds"] for one in written["steps"])
    lines += [
        "",
        f"From the claim to the promotion: {whole:.1f} s.",
        "",
        "| step | s | share |",
        "|---|---:|---:|",
    ]
    lines += [
        f"| {one['step']} | {one['seconds']:.1f} | {one['seconds'] / whole:.0%} |" for one in written["steps"]
    ]
    return lines


def _figure(of: Any, path: Sequence[str]) -> str:
    for name in path:
        of = of.get(name) if of is not None else None
    return "" if of is None else f"{of:.2f}"
