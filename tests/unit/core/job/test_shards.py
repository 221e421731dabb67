"""Shards: every key has one shard for ever, and every shard one partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.job.shards import MAX_SHARDS, ShardMap
from cutwater.core.protocol.changelog_rows import signed


@st.composite
def maps(draw: st.DrawFn) -> ShardMap:
    shards = 2 ** draw(st.integers(0, 10))
    return ShardMap(shards, draw(st.integers(1, shards)))


@given(maps())
def test_each_partition_owns_exactly_the_shards_mapped_to_it(shard_map: ShardMap) -> None:
    """`owned` is the exact inverse of `partition`: contiguous ranges that cover every shard once."""
    owned = [list(shard_map.shards_of_partition(number)) for number in range(shard_map.partitions)]
    assert [shard for shards in owned for shard in shards] == list(range(shard_map.shards))
    assert all(owned), "a partition without shards would stay empty for ever"
    for number, shards in enumerate(owned):
        assert {shard_map.partition(one) for one in shards} == {number}


@given(maps())
def test_ranges_differ_by_one_shard_at_most(shard_map: ShardMap) -> None:
    """No partition gets more than its share of the key space."""
    sizes = {len(shard_map.shards_of_partition(number)) for number in range(shard_map.partitions)}
    assert max(sizes) - min(sizes) <= 1


@given(maps(), st.integers(1, 1024), st.integers(0, 2**64 - 1))
def test_a_key_keeps_its_shard_when_partitions_change(shard_map: ShardMap, count: int, key: int) -> None:
    """The shard depends on the key and the number of shards alone: digests stay comparable."""
    other = ShardMap(shard_map.shards, min(count, shard_map.shards))
    assert shard_map.shard(key) == other.shard(key)


@given(maps(), st.integers(0, 2**64 - 1))
def test_signed_and_unsigned_hashes_agree(shard_map: ShardMap, unsigned: int) -> None:
    """Spark's hash is signed and xxhash's is not: both name the same shard."""
    assert shard_map.shard(unsigned) == shard_map.shard(signed(unsigned))
    assert 0 <= shard_map.shard(unsigned) < shard_map.shards


@pytest.mark.parametrize("shards", [0, -4, 3, 1000, MAX_SHARDS * 2])
def test_shards_must_be_a_power_of_two(shards: int) -> None:
    """The message names the number given and what is allowed."""
    with pytest.raises(UsageError, match=f"shards is {shards}: it must be a power of two from 1 to {MAX_SHARDS}"):
        ShardMap(shards, 1)


@pytest.mark.parametrize("partitions", [0, -1, 9])
def test_a_partition_needs_a_shard(partitions: int) -> None:
    """More partitions than shards would leave some without any key."""
    with pytest.raises(UsageError, match=rf"partitions is {partitions}: it must be from 1 to shards \(8\)"):
        ShardMap(8, partitions)


def test_the_sql_expression_is_the_published_one() -> None:
    """What Spark computes is part of the format: the mask, the scaling and the integer division."""
    expected = "cast((xxhash64(`k`) & 1023L) * 5 div 1024 as int)"
    assert ShardMap(1024, 5).partition_sql("`k`") == expected
