"""The driver's proof on a real broker: a task ran twice and a sum's last bit differs; a start behind a loss."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.hashing import rows_hash
from cutwater.adapters.kafka import admin
from cutwater.core.driver.row_proof import Written
from cutwater.core.errors import LostRecordsError, UnavailableError
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer, signed
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.topics import TopicSpec
from cutwater_spark.epoch.row_proof import ProvedRows
from support.protocol_samples import GENERATION, barrier, milestone

Rows = dict[bytes, bytes]
ADDENDS = [0.1, 0.2, 0.3]
COUNTED: Rows = {b"ash": pack(">d", sum(ADDENDS)), b"elm": pack(">d", 4.0)}
RETRIED: Rows = {b"ash": pack(">d", sum(reversed(ADDENDS)))}
"""One of the rows, by the task's other try: the same addends in another order."""
NO_SOURCE = Cut()


class Epoch:
    """The rows of an epoch in one of the changelog's two partitions, and the proof of what was counted."""

    def __init__(self, cluster: Any, topic: str) -> None:
        admin.create_topics(cluster, [TopicSpec(topic, 2, ())])
        self.topic, self._cluster = topic, cluster
        self._producer = cluster.client(Producer, {"acks": "all"})
        self.rows = ProvedRows(cluster, topic, 2)

    def attempt(self, number: int, *tries: Rows) -> Cut:
        """Write what each try of the task writes, in this order. Return the cut that is proved."""
        me = Writer(GENERATION, number, 0)
        self.rows.begin_epoch(None, NO_SOURCE)
        for rows in tries:
            for key, value in rows.items():
                headers = [(WRITER_HEADER, me.header)]
                self._producer.produce(self.topic, value, key, partition=1, headers=headers)
            assert self._producer.flush(20) == 0
        digest = signed(rows_hash(list(COUNTED), list(COUNTED.values())))
        proved = self.rows.prove(None, me, Written({0: 0, 1: len(COUNTED)}, {1: digest}), {})
        self.evidence = proved.evidence
        return proved.changelog_cut

    def make_topic_again(self) -> None:
        """Somebody deletes the changelog, and another one of its name gets as many rows."""
        admin.delete_topics(self._cluster, [self.topic])
        admin.create_topics(self._cluster, [TopicSpec(self.topic, 2, ())])
        for key, value in COUNTED.items():
            self._producer.produce(self.topic, value, key, partition=1)
        assert self._producer.flush(20) == 0


@pytest.fixture
def epoch(broker: Any, unique: Callable[[str], str]) -> Epoch:
    return Epoch(broker.cluster, unique("retried"))


def test_a_retry_with_another_last_bit_in_front_of_the_counted_rows_is_a_repeat(epoch: Epoch) -> None:
    """The counted rows stand last: a reader that takes the newest row of each key proves the milestone."""
    assert COUNTED[b"ash"] != RETRIED[b"ash"], "the sums are equal"
    assert epoch.attempt(1, RETRIED, COUNTED) == Cut.of_topic(epoch.topic, [0, 3])


def test_a_retry_with_another_last_bit_behind_the_counted_rows_ends_the_attempt(epoch: Epoch) -> None:
    """No reader could prove the milestone. The next attempt writes the epoch again, and is proved."""
    with pytest.raises(UnavailableError, match=f"{epoch.topic}/1 holds other rows of this epoch than the counted"):
        epoch.attempt(1, COUNTED, RETRIED)
    assert epoch.attempt(2, COUNTED) == Cut.of_topic(epoch.topic, [0, 5])


def test_a_retry_with_the_same_rows_is_a_repeat_on_either_side(epoch: Epoch) -> None:
    same = {b"ash": COUNTED[b"ash"]}
    assert epoch.attempt(1, same, COUNTED, same) == Cut.of_topic(epoch.topic, [0, 4])


def test_a_driver_that_starts_on_another_log_says_so(epoch: Epoch) -> None:
    """The start compares the evidence itself. Offsets alone show nothing, and no row above the cut is foreign."""
    cut = epoch.attempt(1, COUNTED)
    told = barrier(0, changelog_cut=cut, source_cut=NO_SOURCE, evidence=epoch.evidence)
    epoch.rows.check_start(told, GENERATION, 1, 2)
    epoch.make_topic_again()
    with pytest.raises(LostRecordsError, match=f"{epoch.topic} was deleted and recreated"):
        epoch.rows.check_start(told, GENERATION, 1, 2)


def test_a_source_that_lost_what_the_parent_counts_is_named_before_the_first_barrier(
    broker: Any, unique: Callable[[str], str]
) -> None:
    """A generation has its seed and no barrier: the source's evidence is that of the milestone it continues."""
    source, other = Epoch(broker.cluster, unique("source")), Epoch(broker.cluster, unique("changelog"))
    cut = source.attempt(1, COUNTED)
    other.rows.parent = milestone(0, source_cut=cut, evidence=source.evidence)
    other.rows.begin_epoch(None, cut)
    source.make_topic_again()
    with pytest.raises(LostRecordsError, match=f"{source.topic} was deleted and recreated"):
        other.rows.begin_epoch(None, cut)
