"""The transition table: every pair of phase and fact is either in it, or a breach of the protocol."""

from __future__ import annotations

from itertools import product

import pytest

from cutwater.core.errors import ProtocolError
from cutwater.core.protocol.commit import TRANSITIONS, Fact, Phase, advance

# Said again by hand: a change of the table must be a decision, made in two places.
ALLOWED = {
    ("open", "WRITTEN"): "prepared",
    ("prepared", "WRITTEN"): "prepared",
    ("prepared", "CONFIRMED"): "committed",
    ("committed", "WRITTEN"): "committed",
    ("committed", "CONFIRMED"): "committed",
}
PAIRS = list(product(Phase, Fact))


def test_the_table_is_the_decided_one() -> None:
    """No entry was added, lost or changed in silence."""
    told = {(phase.value, fact.name): after.value for (phase, fact), after in TRANSITIONS.items()}
    assert told == ALLOWED


@pytest.mark.parametrize(("phase", "fact"), PAIRS, ids=[f"{phase.value}-{fact.name}" for phase, fact in PAIRS])
def test_each_pair_advances_or_raises(phase: Phase, fact: Fact) -> None:
    """A pair outside the table raises and says both halves; one inside leads where the table says."""
    after = ALLOWED.get((phase.value, fact.name))
    if after is not None:
        assert advance(phase, fact) is Phase(after)
        return
    with pytest.raises(ProtocolError) as caught:
        advance(phase, fact)
    assert phase.value in str(caught.value)
    assert fact.value in str(caught.value)


def test_committed_is_final() -> None:
    """No fact leads out of 'committed': what readers were shown stays."""
    assert {after for (phase, _), after in TRANSITIONS.items() if phase is Phase.COMMITTED} == {Phase.COMMITTED}
