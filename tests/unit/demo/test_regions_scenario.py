"""When the demonstration of two regions may say that one is a replica of the other again."""

from __future__ import annotations

import pytest
from examples.two_regions.scenario import Verified

from cutwater.core.protocol.generation import Generation, Token

THIRD = Generation(3, "us", "0badcafe")
LAST = Token(THIRD, 11)


@pytest.mark.parametrize("token", [LAST, Token(THIRD, 12), Token(Generation(4, "us"), 1)])
def test_equal_rows_at_the_last_milestone_or_behind_it(token: Token) -> None:
    assert Verified(token, rows=7, differing_rows=0, equal=True).replicates(LAST)


@pytest.mark.parametrize(
    "found",
    [
        Verified(LAST, rows=7, differing_rows=1, equal=False),
        Verified(LAST, rows=0, differing_rows=0, equal=True),
        Verified(Token(THIRD, 10), rows=7, differing_rows=0, equal=True),
        Verified(Token(Generation(1, "us"), 99), rows=7, differing_rows=0, equal=True),
    ],
    ids=["other rows", "no rows", "an older milestone", "the fork"],
)
def test_anything_else_is_no_replica(found: Verified) -> None:
    assert not found.replicates(LAST)
