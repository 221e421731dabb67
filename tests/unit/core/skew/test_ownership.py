"""What moves when partitions change, against a plain count."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.job.shards import ShardMap
from cutwater.core.skew.ownership import Counted, moved

sizes = st.sampled_from([16, 64, 256])


@given(sizes, st.integers(1, 16), st.integers(1, 16))
def test_what_moves_is_what_gets_another_partition(shards: int, before: int, after: int) -> None:
    """Keys and rows by shard; at least as many shards as any assignment must move."""
    rows = tuple((7 * at + before) % 13 for at in range(shards))
    keys = tuple(one // 2 for one in rows)
    found = moved(shards, before, after, Counted(keys, rows, whole=True))
    away = [at for at in range(shards) if at * before // shards != at * after // shards]
    assert found.shards_moved == len(away)
    assert found.rows_moved == sum(rows[at] for at in away)
    assert found.keys_moved == sum(keys[at] for at in away)
    assert (found.rows, found.keys) == (sum(rows), sum(keys))
    assert 0 <= found.shards_least <= found.shards_moved
    old, new = ShardMap(shards, before), ShardMap(shards, after)
    assert found.parents_max == max(
        len({old.partition(one) for one in new.shards_of_partition(at)}) for at in range(after)
    )
    assert found.parents_max <= -(-before // after) + 1


def test_known_changes() -> None:
    """From 4 to 8 partitions each one is cut in two; the least is half of all shards."""
    nothing = Counted((0,) * 1024, (0,) * 1024, whole=False)
    found = moved(1024, 4, 8, nothing)
    assert (found.shards_least, found.parents_max, found.whole) == (512, 1, False)
    assert moved(1024, 4, 4, nothing).shards_moved == 0
    assert moved(1024, 3, 4, nothing).shards_least == 256
