"""What the gate of a canary decides, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.canary.gate import GateVerdict, judge
from cutwater.core.protocol.records import Canary, DifferingRow
from support.protocol_samples import JOB, OTHER

NUMBERS = st.integers(0, 50)


def gate(milestones: int, differences: int) -> Canary:
    return Canary(JOB, OTHER, milestones, differences, 0.0, 0, 0)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_it_promotes_after_enough_and_drops_at_the_first_too_many(
    milestones: int, differences: int, compared: int, differing: int
) -> None:
    """Never both, and nothing without a number of milestones."""
    verdict = judge(gate(milestones, differences), compared, differing).verdict
    if not milestones:
        assert verdict is GateVerdict.NONE
    elif differing > differences:
        assert verdict is GateVerdict.DROP
    else:
        assert (verdict is GateVerdict.PROMOTE) == (compared >= milestones)


def test_a_drop_names_rows() -> None:
    rows = [DifferingRow(f"k{number}", 0, 60_000, "n 2 → 1") for number in range(9)]
    reason = judge(gate(10, 0), 3, 9, rows).reason
    assert "9 rows differ" in reason
    assert "k0 1970-01-01T00:00:00Z n 2 → 1" in reason
    assert "k3" not in reason
    assert "1 row differs" in judge(gate(10, 0), 3, 1, rows[:1]).reason
