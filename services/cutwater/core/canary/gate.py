"""The gate of a canary: it promotes a candidate that is equal for long enough, and drops one that is not."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from cutwater.core.protocol.records import Canary, DifferingRow
from cutwater.core.util.timestamps import iso

NAMED_MAX = 3
"""The most rows that the reason for a drop names."""


class Gate(NamedTuple):
    """What is asked of a canary; the fields are those of the record `Canary`."""

    milestones: int = 0
    differences: int = 0
    tolerance: float = 0.0
    keep_ms: int = 0


class GateVerdict(StrEnum):
    NONE = ""
    """Not decided yet."""
    PROMOTE = "promote"
    DROP = "drop"


class Judged(NamedTuple):
    verdict: GateVerdict
    reason: str


UNDECIDED = Judged(GateVerdict.NONE, "")


def judge(gate: Canary, compared: int, differing: int, first: Sequence[DifferingRow] = ()) -> Judged:
    """Return what the gate says after a pair. `compared`: pairs so far. `differing`: rows that differ at the last
    one, of which `first` are some."""
    if not gate.milestones:
        return UNDECIDED
    if differing > gate.differences:
        rows = "1 row differs" if differing == 1 else f"{differing:,} rows differ"
        named = "; ".join(row_text(one) for one in first[:NAMED_MAX])
        more = f", first {named}" if named else ""
        return Judged(
            GateVerdict.DROP,
            f"{rows} at the {compared:,}. compared milestone, more than {gate.differences:,}{more}",
        )
    if compared >= gate.milestones:
        return Judged(
            GateVerdict.PROMOTE, f"{compared:,} milestones compared, {differing:,} rows differ at the last one"
        )
    return UNDECIDED


def row_text(one: DifferingRow) -> str:
    return f"{one.key} {iso(one.start_ms)} {one.text}"
