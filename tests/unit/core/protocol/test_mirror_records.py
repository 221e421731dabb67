"""The topics of a mirror that hold no copies of events."""

from __future__ import annotations

from cutwater.core.protocol import mirror_records


def test_what_a_mirror_tells_in_order_has_one_partition() -> None:
    """Milestones and their arrivals are joined in the order of the stream; the newest position counts."""
    assert {one.name: one.partitions for one in mirror_records.mirror_topics("ticks", "us")} == {
        mirror_records.milestones_from("ticks", "us"): 1,
        mirror_records.arrivals("ticks", "us"): 1,
        mirror_records.positions("ticks"): 1,
    }
