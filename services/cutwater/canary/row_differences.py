"""The rows that differ between the two states of a canary, kept from pair to pair.

The first pair compares every row. Each later one compares those that either generation has changed since: no
other row can have become different, or equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from cutwater.canary.compared_state import ComparedState
from cutwater.core.canary.milestone_pairs import Pair
from cutwater.core.canary.row_comparison import CanaryRows, described
from cutwater.core.output.state_diff import Rows, unequal_rows
from cutwater.core.protocol.records import DifferingRow
from cutwater.past.diff import RowReader, row_name, same_row
from cutwater.views.store import key_layout

KEPT_MAX = 100_000
"""The most differing rows that are kept; of more, the number is a lower bound."""
NAMED_MAX = 20


@dataclass(frozen=True)
class Differences:
    """The rows that differ at a pair."""

    rows: int
    """Those that were compared."""
    differing: int
    late: int
    """Those that differ, but may do so by an event that only one generation has counted as late."""
    late_until_ms: int
    first: tuple[DifferingRow, ...] = field(default=())


class StateComparison:
    """Compares two states whenever both are at a pair. `late_until_ms`: the bound of an earlier process."""

    def __init__(
        self, live: ComparedState, candidate: ComparedState, rows: CanaryRows, late_until_ms: int
    ) -> None:
        self._live, self._candidate, self._rows = live, candidate, rows
        self._readers = RowReader(live.job), RowReader(candidate.job)
        self._differing: dict[bytes, DifferingRow] = {}
        self._late_until_ms = late_until_ms
        self._overflowed = False

    def compare(self, pair: Pair) -> Differences:
        """Move both states to the pair, and compare them. Raises as `ComparedState.move`."""
        whole = not (self._live.has_milestone and self._candidate.has_milestone) or self._overflowed
        changed = self._live.move(pair.live), self._candidate.move(pair.candidate)
        one, two = pair.live.milestone, pair.candidate.milestone
        if pair.live.late != pair.candidate.late:
            self._late_until_ms = max(self._late_until_ms, one.watermark_ms, two.watermark_ms)
        above_ms = max(one.horizon_ms, two.horizon_ms)
        if whole or changed[0] is None or changed[1] is None:
            compared = self._compare_all(above_ms)
        else:
            names = changed[0] | changed[1]
            compared = self._compare_changed(names, above_ms, pair)
            self._forget_below(above_ms)
        return self._found(compared)

    def _compare_all(self, above_ms: int) -> int:
        self._differing, self._overflowed = {}, False
        counted = _Counted()
        sides = counted.of(self._live.pieces(above_ms)), self._candidate.pieces(above_ms)
        same = same_row if self._rows.same_form else _never
        for name, live, candidate in unequal_rows(*sides, same):
            self._take(name, live, candidate)
        return counted.rows

    def _compare_changed(self, names: Set[bytes], above_ms: int, pair: Pair) -> int:
        above = key_layout.end_suffix(above_ms)
        held = [name for name in names if name[-key_layout.END_BYTES :] > above]
        if proved_equal(pair, self._rows.same_form):
            for name in held:
                self._differing.pop(name, None)
            return len(held)
        for name in held:
            self._take(name, self._live.value(name), self._candidate.value(name))
        return len(held)

    def _take(self, name: bytes, live: bytes | None, candidate: bytes | None) -> None:
        """Note whether a row differs."""
        self._differing.pop(name, None)
        if live is None and candidate is None:
            return
        if self._rows.same_form and live is not None and candidate is not None and same_row(live, candidate):
            return
        shown = self._readers[0].row(live), self._readers[1].row(candidate)
        change = self._rows.change(row_name(name), *shown)
        if change is None:
            return
        if len(self._differing) >= KEPT_MAX:
            self._overflowed = True  # those above are not known one by one: the next pair compares every row
            return
        self._differing[name] = described(change)

    def _forget_below(self, above_ms: int) -> None:
        above = key_layout.end_suffix(above_ms)
        for name in [one for one in self._differing if one[-key_layout.END_BYTES :] <= above]:
            del self._differing[name]

    def _found(self, compared: int) -> Differences:
        late = sum(one.end_ms <= self._late_until_ms for one in self._differing.values())
        named = (one for one in self._in_order() if one.end_ms > self._late_until_ms)
        first = tuple(one for _, one in zip(range(NAMED_MAX), named, strict=False))
        return Differences(compared, len(self._differing) - late, late, self._late_until_ms, first)

    def _in_order(self) -> Iterable[DifferingRow]:
        return (self._differing[name] for name in sorted(self._differing))


def proved_equal(pair: Pair, same_form: bool) -> bool:
    """Return whether both generations have written the same rows since the last pair, by their milestones' proofs:
    then no row has to be read to know that they are equal."""
    if not same_form or len(pair.live.entries) != 1 or len(pair.candidate.entries) != 1:
        return False
    one, two = pair.live.milestone, pair.candidate.milestone
    return (one.rows, one.digest) == (two.rows, two.digest)


class _Counted:
    """Counts the rows that it passes on."""

    def __init__(self) -> None:
        self.rows = 0

    def of(self, pieces: Iterator[Rows]) -> Iterator[Rows]:
        for piece in pieces:
            self.rows += len(piece)
            yield piece


def _never(_one: bytes, _two: bytes) -> bool:
    return False
