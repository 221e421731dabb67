"""The demo's comparison of every served row with every expected row.

`compare` is pure; `table` shows its result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cutwater.core.errors import UsageError
from cutwater.core.util import text_tables
from cutwater.core.util.text_tables import Column, Table

Row = Mapping[str, Any]
Key = tuple[str, int]  # airport, window start in ms

_KEY_NAMES = ("airport", "window_start_ms")
# Two engines add the same integers but may divide in another precision: the last bits are not an error.
_MEAN_DELAY_RELATIVE = 1e-9
# Served counts of distinct carriers are estimates of an HLL sketch; this is its stated error bound.
_CARRIERS_RELATIVE = 0.02
_CARRIERS_ABSOLUTE = 1


@dataclass(frozen=True, slots=True)
class OracleDifference:
    """One fault. For a missing or unexpected row, measure is None and the row is the value."""

    kind: Literal["missing", "unexpected", "different"]
    key: Key
    measure: str | None
    expected: Any
    served: Any


@dataclass(frozen=True, slots=True)
class Differences:
    """Complete counts of rows, and the first few faults as examples, in key order.

    expected:   rows that should be served
    served:     rows that are served
    missing:    expected, not served
    unexpected: served, not expected, or served more than once
    different:  served once or more, with at least one wrong measure
    """

    expected: int
    served: int
    missing: int
    unexpected: int
    different: int
    examples: tuple[OracleDifference, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.different)


def compare(expected: Sequence[Row], served: Sequence[Row], *, examples: int = 20) -> Differences:
    """Compare rows by (airport, window_start_ms), in every measure of the expected row.

    All rows are counted; at most `examples` faults of each kind are kept. A measure that the served row lacks is
    different; one that only the served row has is ignored. `mean_delay` may differ by 1e-9 of its value and
    `carriers` by 2 % or 1, whichever is more; other measures must be equal. Raise UsageError if an expected key
    occurs twice.
    """
    wanted = {_key(row): row for row in expected}
    if len(wanted) != len(expected):
        twice = next(key for key, n in Counter(map(_key, expected)).items() if n > 1)
        raise UsageError(f"two rows are expected for {twice}: group the events by airport and window first")
    found = {_key(row): row for row in served}
    missing = sorted(wanted.keys() - found.keys())
    unexpected = [(key, found[key]) for key in sorted(found.keys() - wanted.keys())]
    if len(found) != len(served):
        unexpected += _repeats(served)
    different = sorted(key for key, row in wanted.items() if key in found and not _agree(row, found[key]))
    return Differences(
        expected=len(expected),
        served=len(served),
        missing=len(missing),
        unexpected=len(unexpected),
        different=len(different),
        examples=(
            *(OracleDifference("missing", key, None, wanted[key], None) for key in missing[:examples]),
            *(OracleDifference("unexpected", key, None, None, row) for key, row in unexpected[:examples]),
            *[d for key in different[:examples] for d in _faults(key, wanted[key], found[key])][:examples],
        ),
    )


def table(differences: Differences) -> Table:
    rows = differences.missing + differences.unexpected + differences.different
    title = f"{rows:,} rows differ; {len(differences.examples):,} faults shown"
    columns = (
        *("fault", "airport", Column("window start (ms)", 1), "measure"),
        *(Column("expected", below=True), Column("served", below=True)),
    )
    faults = (
        (one.kind, *one.key, one.measure or "(row)", _short(one.expected), _short(one.served))
        for one in differences.examples
    )
    return text_tables.table(title, columns, faults, hint="a wider terminal shows them")


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={value[name]}" for name in value if name not in _KEY_NAMES)
    return repr(value)


def _key(row: Row) -> Key:
    return row["airport"], row["window_start_ms"]


def _repeats(served: Sequence[Row]) -> list[tuple[Key, Row]]:
    """Return every serving of a key except the last, which is compared."""
    last = {_key(row): place for place, row in enumerate(served)}
    again = [(_key(row), row) for place, row in enumerate(served) if last[_key(row)] != place]
    return sorted(again, key=lambda one: one[0])


def _agree(expected: Row, served: Row) -> bool:
    return expected == served or not _faults(_key(expected), expected, served)  # equality is the fast path


def _faults(key: Key, expected: Row, served: Row) -> list[OracleDifference]:
    return [
        OracleDifference("different", key, name, value, served.get(name, "(absent)"))
        for name, value in expected.items()
        if name not in served or not _equal(name, value, served[name])
    ]


def _equal(measure: str, expected: Any, served: Any) -> bool:
    if expected is None or served is None:
        return expected is served
    if not isinstance(served, int | float):
        return bool(expected == served)
    if measure == "mean_delay":
        return math.isclose(expected, served, rel_tol=_MEAN_DELAY_RELATIVE)
    if measure == "carriers":
        return bool(abs(expected - served) <= max(_CARRIERS_ABSOLUTE, _CARRIERS_RELATIVE * expected))
    return bool(expected == served)
