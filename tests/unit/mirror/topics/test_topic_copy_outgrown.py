"""Records that are larger than a copy seems to take: each costs a look at most, and never the copying."""

from __future__ import annotations

from typing import Any, cast

from cutwater.core.mirror.copy_progress import RecordMeta
from cutwater.mirror.topics.topic_copy import CopiedTopic, FetchedRecords, outgrown


def piece(partition: int, *sizes: int, name: str = "events", largest: int = 1_000) -> FetchedRecords:
    followed = CopiedTopic(name, f"{name}.from-us", "id", 3, 0, False, {}, {}, largest, cast(Any, None))
    return FetchedRecords(
        followed, partition, 0, len(sizes), read=[RecordMeta(at, 0, size) for at, size in enumerate(sizes)]
    )


def test_two_sizes_that_alternate_cost_a_look_each() -> None:
    """Both rightful: compressed they fit. Looked at again for each change, the topic was never copied."""
    looked: dict[str, int] = {}
    looks = [bool(outgrown([piece(0, size)], looked)) for size in (2_000, 3_000) * 5]
    assert looks == [True, True] + [False] * 8
    assert looked == {"events": 3_000}


def test_the_largest_of_all_partitions_counts() -> None:
    looked: dict[str, int] = {}
    both = [piece(0, 5_000, 10), piece(1, 4_000), piece(0, 900, name="other")]
    assert outgrown(both, looked).keys() == {"events"}
    assert looked == {"events": 5_000}
    assert outgrown(both, looked) == {}
    assert outgrown([piece(1, 5_001)], looked).keys() == {"events"}


def test_what_the_topic_takes_costs_none() -> None:
    looked: dict[str, int] = {}
    assert outgrown([piece(0, 1_000), piece(1)], looked) == {}
    assert looked == {}
