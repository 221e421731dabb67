"""Keys of a load: their frequencies against Zipf's law, and which ones are frequent when."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.load.key_draw import KeyDraw
from cutwater.core.sizing.skew import KeySkew

DRAWS = 20_000


def test_keys_have_the_frequencies_of_zipfs_law() -> None:
    skew, draw = KeySkew(1_000, 1.0), KeyDraw(KeySkew(1_000, 1.0), Random(1))
    found = Counter(draw.at(0) for _ in range(DRAWS))
    for rank in range(5):
        expected = skew.hottest / (rank + 1) * DRAWS
        assert abs(found[rank] - expected) < 5 * expected**0.5, rank
    assert max(found) < 1_000
    assert len(found) > 900, "rare keys are drawn, too"


@given(st.integers(1, 10**12), st.floats(0, 5), st.floats(0, 1e5), st.integers(0, 100))
def test_a_key_is_one_of_the_keys(keys: int, exponent: float, at_s: float, seed: int) -> None:
    draw = KeyDraw(KeySkew(keys, exponent), Random(seed), 1.0)
    assert all(0 <= draw.at(at_s) < keys for _ in range(20))


def test_other_keys_are_frequent_later() -> None:
    """In each span of time another one, and the same ones with the same seed."""

    def hottest(at_s: float) -> int:
        draw = KeyDraw(KeySkew(1_000, 1.5), Random(2), 10.0)
        return Counter(draw.at(at_s) for _ in range(500)).most_common(1)[0][0]

    assert hottest(1) == hottest(9) == 0
    assert len({hottest(one * 10 + 5) for one in range(6)}) == 6
