"""Shares of keys by Zipf's law, against sums over every key."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.sizing.skew import KeySkew


def every_share(keys: int, exponent: float) -> list[float]:
    weights = [rank**-exponent for rank in range(1, keys + 1)]
    return [one / sum(weights) for one in weights]


@given(st.integers(1, 3_000), st.floats(0, 3), st.integers(1, 100_000))
def test_groups_of_ranks_are_as_every_rank(keys: int, exponent: float, events: int) -> None:
    """The hottest key's share, and how many keys so many events have."""
    shares, skew = every_share(keys, exponent), KeySkew(keys, exponent)
    assert sum(one.keys * one.share for one in skew.groups) == pytest.approx(1)
    assert sum(one.keys for one in skew.groups) == keys
    assert skew.hottest == pytest.approx(shares[0], rel=0.001)
    touched = sum(1 - (1 - one) ** events for one in shares)
    assert skew.touched(events) == pytest.approx(min(touched, events), rel=0.01)


def test_as_many_keys_as_there_are_grains_of_sand() -> None:
    """It takes as long as few."""
    skew = KeySkew(10**12, 1.0)
    assert len(skew.groups) < 600
    assert skew.hottest == pytest.approx(1 / 28.208, rel=0.001)  # ln 10^12 + Euler's constant
    assert KeySkew(10**12).touched(10**6) == pytest.approx(10**6, rel=0.001)
    assert skew.touched(0) == 0


@pytest.mark.parametrize(("keys", "exponent"), [(5_000, 0.0), (5_000, 0.8), (1_000, 1.5), (50, 0.0)])
@pytest.mark.parametrize("partitions", [1, 4, 200])
def test_the_fullest_partition_is_as_full_as_one_of_keys_placed_by_chance(
    keys: int, exponent: float, partitions: int
) -> None:
    """The mean of thirty placements."""
    shares, fullest = every_share(keys, exponent), 0.0
    for seed in range(30):
        random, found = Random(seed), [0.0] * partitions
        for one in shares:
            found[random.randrange(partitions)] += one
        fullest += max(found) / 30
    assert 0.7 < KeySkew(keys, exponent).largest_share(partitions) / fullest < 1.4


@given(st.integers(1, 10**6), st.floats(0, 2), st.integers(1, 500), st.integers(0, 9))
def test_shares_of_partitions_add_up(keys: int, exponent: float, partitions: int, seed: int) -> None:
    skew = KeySkew(keys, exponent)
    found = skew.shares(partitions, Random(seed))
    assert len(found) == partitions
    assert sum(found) == pytest.approx(1)
    assert max(found) >= skew.hottest * 0.999
