"""A comparison of the places that hold a milestone's state, by shard first and then by row.

The changelog is the reference: milestones prove its rows by count and digest. Every other place must hold the
changelog's rows within its *scope* (for example, Spark's state has open windows only). If the digests of a shard
differ, its rows are compared side by side, and each difference names the places outside the majority.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple

from cutwater.core.protocol.records import Milestone
from cutwater.core.state.selection import Selection

CHANGELOG, VIEW, STATE, OUTPUT = "changelog", "view", "state", "output"
PLACES = (CHANGELOG, VIEW, STATE, OUTPUT)


class RowName(NamedTuple):
    """The key of a row: the group key and the window, in ms."""

    key: str
    start_ms: int
    end_ms: int


class PlaceRow(NamedTuple):
    shard: int
    name: RowName
    value: bytes
    """The changelog's bytes; for the output, the text that `shown_text` returns."""


class Scope(NamedTuple):
    """The rows that a place must hold: windows that end in (above_ms, up_to_ms], of these shards."""

    above_ms: int
    up_to_ms: int | None = None
    shards: frozenset[int] | None = None
    """None for all."""
    selection: Selection | None = None
    """None for all."""

    def holds(self, shard: int, name: RowName) -> bool:
        in_time = name.end_ms > self.above_ms and (self.up_to_ms is None or name.end_ms <= self.up_to_ms)
        here = self.shards is None or shard in self.shards
        return in_time and here and (self.selection is None or self.selection.keeps(name.key, name.end_ms))

    def narrowed(self, shards: frozenset[int] | None, lower_ms: int | None, selection: Selection | None) -> Scope:
        """Return the scope limited to some shards, a selection, and windows that end above `lower_ms`."""
        above = self.above_ms if lower_ms is None else max(self.above_ms, lower_ms)
        return self._replace(above_ms=above, shards=shards, selection=selection)


def scope_of(
    place: str,
    milestone: Milestone,
    output_mode: str = "updates",
    shown_above_ms: Callable[[int], int] = lambda bound_ms: bound_ms,
) -> Scope:
    """Return what the place must hold. `shown_above_ms`: from a bound of rows to that of complete windows."""
    horizon, watermark = shown_above_ms(milestone.horizon_ms), milestone.watermark_ms
    if place == STATE:  # Spark evicts the rows up to the floor, some of them later
        return Scope(max(horizon, shown_above_ms(milestone.floor_ms)))
    if place == OUTPUT and output_mode == "final":
        return Scope(horizon, watermark)
    return Scope(horizon)


class RowTotals(NamedTuple):
    rows: int = 0
    digest: int = 0

    def plus(self, other: RowTotals) -> RowTotals:
        return RowTotals(self.rows + other.rows, self.digest ^ other.digest)


NOTHING = RowTotals()


def sum_by_shard(rows: Iterable[PlaceRow], hash_of: Callable[[RowName, bytes], int]) -> dict[int, RowTotals]:
    """Return rows and digest by shard. The digest is an XOR of hashes, so the order does not matter."""
    found: dict[int, RowTotals] = {}
    for shard, name, value in rows:
        found[shard] = found.get(shard, NOTHING).plus(RowTotals(1, hash_of(name, value)))
    return found


def total(shards: Mapping[int, RowTotals]) -> RowTotals:
    whole = NOTHING
    for one in shards.values():
        whole = whole.plus(one)
    return whole


def differing_shards(one: Mapping[int, RowTotals], other: Mapping[int, RowTotals]) -> set[int]:
    return {shard for shard in one.keys() | other.keys() if one.get(shard) != other.get(shard)}


def side_by_side(places: Mapping[str, Iterable[PlaceRow]]) -> Iterator[tuple[int, RowName, dict[str, bytes]]]:
    """Yield (shard, name, value by place) of every row. Each place's rows must be sorted by shard and name."""

    def tagged(place: str, rows: Iterable[PlaceRow]) -> Iterator[tuple[int, RowName, str, bytes]]:
        return ((row.shard, row.name, place, row.value) for row in rows)

    # Never compare values: the place orders equal names.
    merged = heapq.merge(*(tagged(*one) for one in places.items()), key=lambda one: one[:3])
    for (shard, name), group in groupby(merged, key=lambda one: one[:2]):
        yield shard, name, {place: value for _, _, place, value in group}


@dataclass(frozen=True)
class RowDifference:
    """A row that differs between places."""

    shard: int
    name: RowName
    values: dict[str, str | None]
    """The presented values as JSON text, by place; None if the place does not hold the row."""
    suspects: tuple[str, ...]
    """The places outside the majority."""


class RowComparison:
    """Compares the values of one row. `shown`: converts a changelog value to the bytes that users see."""

    def __init__(
        self,
        scopes: Mapping[str, Scope],
        shown: Callable[[bytes], bytes],
        shown_places: Iterable[str] = (OUTPUT,),
        forgetful: Iterable[str] = (),
    ) -> None:
        """`shown_places`: places with presented values. `forgetful`: places whose retention may drop old rows."""
        self._scopes = scopes
        self._shown = shown
        self._shown_places = frozenset(shown_places)
        self._forgetful = frozenset(forgetful)

    def difference(self, shard: int, name: RowName, found: Mapping[str, bytes]) -> RowDifference | None:
        """Return the difference in a row; None if all places that must hold it agree."""
        taking_part = [place for place in self._scopes if self._takes_part(place, shard, name, found)]
        values = {place: found.get(place) for place in taking_part}
        labels = self._labels(values)
        if len(set(labels.values())) <= 1:
            return None
        texts = {place: self._text(place, value) for place, value in values.items()}
        return RowDifference(shard, name, texts, odd_ones(labels))

    def _takes_part(self, place: str, shard: int, name: RowName, found: Mapping[str, bytes]) -> bool:
        return self._scopes[place].holds(shard, name) and (place in found or place not in self._forgetful)

    def _labels(self, values: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
        """Return equal labels for equal values. Presented values are compared with presented stored ones."""
        stored = {place: value for place, value in values.items() if place not in self._shown_places}
        labels: dict[str, bytes | None] = dict(stored)
        by_shown: dict[bytes | None, bytes | None] = {
            None if value is None else self.presented_value(value): value
            for value, _ in reversed(Counter(stored.values()).most_common())
        }
        for place in values.keys() - stored.keys():
            seen = values[place]
            labels[place] = by_shown.get(seen, b"shown:" + seen if seen is not None else None)
        return {place: labels[place] for place in values}

    def _text(self, place: str, value: bytes | None) -> str | None:
        if value is None:
            return None
        return (value if place in self._shown_places else self.presented_value(value)).decode()

    def presented_value(self, value: bytes) -> bytes:
        try:
            return self._shown(value)
        except Exception as error:  # damaged bytes are a finding; the comparison continues
            return f"{value.hex()} ({error})".encode()


def odd_ones(labels: Mapping[str, bytes | None]) -> tuple[str, ...]:
    """Return the places outside the majority; without one, those that differ from the first, the reference."""
    [(most, count)] = Counter(labels.values()).most_common(1)
    reference = most if 2 * count > len(labels) else next(iter(labels.values()))
    return tuple(place for place, label in labels.items() if label != reference)


def shown_text(measures: Mapping[str, Any]) -> bytes:
    """Return presented values as compact JSON, in the measures' order."""
    return json.dumps(measures, separators=(",", ":"), ensure_ascii=False).encode()


class Verdict(StrEnum):
    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "not compared"
    """It could not be queried, or does not hold the milestone. Trying again may work."""
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Answer:
    place: str
    verdict: Verdict
    found: RowTotals = NOTHING
    expected: RowTotals = NOTHING
    differences: int = 0
    reason: str = ""


def view_can_be_rebuilt(answers: Sequence[Answer]) -> bool:
    """Return whether the view differs from a changelog whose rows are proved."""
    verdicts = {one.place: one.verdict for one in answers}
    return verdicts.get(VIEW) is Verdict.DIFFERENT and verdicts.get(CHANGELOG) is Verdict.EQUAL


def output_can_be_corrected(answers: Sequence[Answer]) -> bool:
    """Return whether rows of the output differ from a changelog whose rows are proved."""
    found = {one.place: one for one in answers}
    proved = CHANGELOG in found and found[CHANGELOG].verdict is Verdict.EQUAL
    return proved and OUTPUT in found and found[OUTPUT].differences > 0


def next_steps(answers: Sequence[Answer]) -> list[str]:
    """Return what to do about places that differ or could not be compared; empty if all are equal."""
    verdicts = {one.place: one.verdict for one in answers}
    wrong = [place for place, verdict in verdicts.items() if verdict is Verdict.DIFFERENT]
    steps = []
    if CHANGELOG in wrong:
        steps.append(
            "changelog: 'cutwater milestones --check' names the newest milestone that can be proved, and "
            "'cutwater rollback' continues from it; do not repair other places from this changelog"
        )
    elif VIEW in wrong:
        steps.append("view: 'cutwater verify --repair' explains how to rebuild it from the changelog")
    if STATE in wrong:
        steps.append(
            "state: start a generation, which takes its state from the changelog: 'cutwater generation start'"
        )
    if output_can_be_corrected(answers):
        steps.append("output: 'cutwater verify --repair' explains how to publish corrections of the rows")
    elif OUTPUT in wrong and CHANGELOG not in wrong:
        steps.append(
            "output: its rows are right, but not its end markers, and no correction changes that; 'committed()' "
            "stops there"
        )
    if Verdict.UNKNOWN in verdicts.values():
        steps.append("not compared: run it again, or name the other places with --place")
    return steps


def exit_code(answers: Iterable[Answer]) -> int:
    """Return 0 if every place of the job is equal, 1 if one differs, 4 if one could not be compared."""
    verdicts = {one.verdict for one in answers}
    if Verdict.DIFFERENT in verdicts:
        return 1
    return 4 if Verdict.UNKNOWN in verdicts else 0
