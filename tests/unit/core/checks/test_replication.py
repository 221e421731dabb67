"""How many copies there are to be, and what is said where they are fewer than is safe."""

from __future__ import annotations

import pytest

from cutwater.core.checks.replication import Replication, doubts


@pytest.mark.parametrize(
    ("factor", "min_insync", "brokers", "said"),
    [
        (3, 2, 3, []),
        (5, 3, 5, []),
        (3, 3, 3, ["every copy must acknowledge"]),
        (3, 1, 3, ["acknowledged by one broker alone"]),
        (2, 2, 3, ["copies of each topic: 2, and 3 are usual (CUTWATER_REPLICATION_FACTOR", "every copy must"]),
        (1, 1, 1, ["copies of each topic: 1, and 3 are usual (brokers: 1)", "acknowledged by one broker alone"]),
    ],
)
def test_each_risk_of_few_copies_is_said(factor: int, min_insync: int, brokers: int, said: list[str]) -> None:
    """With three of which two acknowledge, one broker may stop and nothing is lost: then there is no doubt."""
    found = doubts(Replication(factor, min_insync), brokers)
    assert len(found) == len(said)
    assert all(part in one for part, one in zip(said, found, strict=True)), found
