"""The topics of a mirror that hold no copies of events."""

from __future__ import annotations

import pytest

from cutwater.core.errors import UsageError
from cutwater.core.protocol import mirror_records


def test_what_a_mirror_tells_in_order_has_one_partition() -> None:
    """Milestones and their arrivals are joined in the order of the stream; the newest position counts."""
    assert {one.name: one.partitions for one in mirror_records.mirror_topics("ticks", "us")} == {
        mirror_records.milestones_from("ticks", "us"): 1,
        mirror_records.arrivals("ticks", "us"): 1,
        mirror_records.positions("ticks"): 1,
    }


def test_a_source_whose_copy_kafka_cannot_name_is_refused() -> None:
    """The mirror would say for ever that brokers refuse the topic."""
    longest = "t" * 241
    mirror_records.require_copy_name(longest, "us")
    assert len(mirror_records.from_origin(longest, "us")) == 249
    with pytest.raises(UsageError, match=r"has 250 characters, and Kafka takes 249\..* at most 241"):
        mirror_records.require_copy_name(f"{longest}t", "us")
    mirror_records.require_copy_name("t" * 227, "r" * 16)
    with pytest.raises(UsageError, match="at most 227"):
        mirror_records.require_copy_name("t" * 228, "r" * 16)
