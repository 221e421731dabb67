"""How far an epoch has read a copy, in the origin's offsets, told from the last record below its cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.kafka.admin import create_topics
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.errors import DivergenceError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater_spark.attach.copied_events import copied_events, last_record
from support.kafka.copied_topic import Record, write


def record(*headers: tuple[str, bytes], partition: int = 0) -> Record:
    return Record(partition, None, b"1", list(headers))


def test_the_last_record_below_the_cut_says_it(broker: Any, unique: Callable[[str], str]) -> None:
    """Behind it lie many records of an aborted transaction; other partitions have no new event."""
    source, cluster = unique("orders"), broker.cluster
    copy = f"{source}.from-us"
    create_topics(cluster, [topics.events(source, 2), topics.events(copy, 2)])
    write(cluster, copy, [record(("source-offset", b"%d" % at)) for at in (10, 11, 17)], 2)
    first = source_end(cluster, copy)
    write(cluster, copy, [record(("source-offset", b"99"))] * 150, 150, aborted=True)
    write(cluster, source, [record()], 1)
    cut = source_end(cluster, copy).and_(source_end(cluster, source))
    place = TopicPartition(copy, 0)
    assert copied_events(cluster, source, Cut(), cut) == {place: 18}
    assert copied_events(cluster, source, Cut(), Cut.of({place: 1})) == {place: 11}
    assert copied_events(cluster, source, first, cut) == {}
    assert copied_events(cluster, source, cut, cut) == {}
    write(cluster, copy, [record()], 1)
    with pytest.raises(DivergenceError, match=f"{copy}/0@.* no mirror has written it"):
        copied_events(cluster, source, cut, source_end(cluster, copy))


@given(st.sets(st.integers(0, 400)), st.integers(0, 400), st.integers(0, 400))
def test_it_is_looked_for_backwards_and_no_offset_is_left_out(held: set[int], first: int, end: int) -> None:
    """The newest of the offsets that hold records, however many hold markers behind it."""
    found = last_record(lambda at: [one for one in sorted(held) if at <= one < end], first, end)
    assert found == max((one for one in held if first <= one < end), default=None)
