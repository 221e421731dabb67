"""The texts that name a milestone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.past.milestone_point import MilestonePoint
from cutwater.core.protocol.generation import Token
from support.protocol_samples import GENERATION, OTHER, milestone

FIRST = milestone(0, committed_ms=1_000)
SECOND = milestone(1, FIRST, committed_ms=2_000)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("latest", [FIRST, SECOND]),
        (str(FIRST.sequence), [FIRST]),
        (str(SECOND.token), [SECOND]),
        (str(GENERATION), [FIRST, SECOND]),
        (str(OTHER), []),
        ("1970-01-01T00:00:01Z", [FIRST]),
        ("1970-01-01T00:00:02", [FIRST, SECOND]),
        ("19700102", [FIRST, SECOND]),
        ("123456789", []),
    ],
)
def test_each_form_means_its_milestones(text: str, meant: list[object]) -> None:
    point = MilestonePoint.of(text)
    assert [one for one in (FIRST, SECOND) if point.means(one)] == meant
    assert str(point)


@given(st.integers(1, 10**18 - 1))
def test_a_number_is_a_sequence_and_a_token_is_itself(number: int) -> None:
    """Numbers of eight digits are days, or nothing."""
    token = Token(GENERATION, number)
    assert MilestonePoint.of(str(token)) == MilestonePoint(token=token)
    if len(str(number)) != 8:
        assert MilestonePoint.of(str(number)) == MilestonePoint(sequence=number)


@pytest.mark.parametrize("text", ["", "newest", "g1", "g1-local-00000000:x", "-1", "12345678", "²"])
def test_another_text_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match="write latest, a sequence number"):
        MilestonePoint.of(text)
