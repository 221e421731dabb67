"""The heat map's bands: nothing hot is lost in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.skew.heat_bands import LEVELS, heat_bands


@given(
    st.lists(st.tuples(*[st.integers(0, 99)] * 8), min_size=1, max_size=9),
    st.integers(1, 8),
    st.integers(1, 12),
    st.integers(1, 8),
)
def test_the_hottest_shard_of_a_band_is_shown(
    cells: list[tuple[int, ...]], bands_max: int, columns_max: int, partitions: int
) -> None:
    """Milestones of one column are added, and each shade is of its weight."""
    heat = heat_bands(cells, partitions, bands_max, columns_max)
    assert len(heat.cells) <= bands_max
    assert len(heat.cells[0]) <= columns_max
    for at, row in enumerate(heat.cells):
        shards = range(at * heat.band, min((at + 1) * heat.band, 8))
        assert heat.partitions[at] == (shards[0] * partitions // 8, shards[-1] * partitions // 8)
        for column, weight in enumerate(row):
            some = cells[column * heat.column : (column + 1) * heat.column]
            assert weight == max(sum(one[shard] for one in some) for shard in shards)
            assert (heat.level(weight) == 0) == (weight == 0)
    assert heat.hottest == 0 or heat.level(heat.hottest) == LEVELS - 1
