"""The fold over the positions topic, without a broker."""

from __future__ import annotations

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.topics.mirror_topics import Positions
from cutwater.core.protocol.mirror_records import Renewal


def test_each_renewal_stands_until_it_is_taken_away() -> None:
    found, here = Positions(), Renewal("shop", "us", "shop.events", 5)
    there, other = Renewal("shop", "eu", "shop.events", 5), Renewal("shop", "us", "shop.milestones", 7)
    for one in (here, there, other, here):
        assert found.take(one.key, protocol_records.encode(one)) == one
    assert found.renewed("us") == {"shop.events": 5, "shop.milestones": 7}
    for _ in range(2):
        assert found.take(here.key, None) is None
        assert (found.renewed("us"), found.renewed("eu")) == ({"shop.milestones": 7}, {"shop.events": 5})
    assert found.renewed("apac") == {}
    assert not found.every
