"""Commands beside a long commit stream: they read no more of it than the answer needs, and keep less."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics import commit_stream, rejected_events
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from support.protocol_samples import milestone

STEP = 256
"""Records of the first step back."""


@pytest.mark.slow
def test_the_search_ends_at_a_lower_number(
    broker: Any, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a generation that was never promoted only the end of the stream is read, however long that is."""
    job, numbers = unique("search"), [1] * 900 + [3] * 20 + [4] * 20
    ensure_topics(broker.cluster, [topics.TopicSpec(topics.milestones(job), 1, ())])
    writer = TransactionalWriter(broker.cluster, topics.signal_id(job))
    writer.initialise()
    told = [replace(milestone(0), generation=of(one), sequence=at) for at, one in enumerate(numbers, 1)]
    writer.write(topics.milestones(job), [protocol_records.encode(one) for one in told])
    read: list[bytes] = []
    decode = protocol_records.decode

    def noted(value: bytes) -> protocol_records.Record:
        read.append(value)
        return decode(value)

    monkeypatch.setattr(protocol_records, "decode", noted)
    for number, sequence in ((4, 940), (3, 920), (1, 900), (2, None), (5, None)):
        read.clear()
        found = commit_stream.newest_milestone(broker.cluster, job, of(number))
        assert (found and found.sequence) == sequence
        assert len(read) <= STEP
    monkeypatch.setattr(commit_stream, "PART_MAX", STEP)
    read.clear()
    assert commit_stream.newest(broker.cluster, topics.milestones(job), lambda _: None) is None
    assert sorted(read) == sorted(map(protocol_records.encode, told)), "each once"


@pytest.mark.slow
def test_the_lists_are_read_beside_a_stream_of_any_length(broker: Any, unique: Callable[[str], str]) -> None:
    """Of each milestone only what tells its entries is kept: a month of milestones does not fit into memory."""
    job, first = unique("long"), milestone(0, source_cut=Cut.of_topic("events", range(64)))
    ensure_topics(broker.cluster, [topics.TopicSpec(of_(job), 1, ()) for of_ in (topics.candidates, topics.late)])
    ensure_topics(broker.cluster, [topics.TopicSpec(topics.milestones(job), 1, ())])
    writer = TransactionalWriter(broker.cluster, topics.signal_id(job))
    writer.initialise()
    told = (replace(first, sequence=at + 1, epoch=at, late=0) for at in range(3_000))
    writer.write(topics.milestones(job), [protocol_records.encode(one) for one in told])
    tracemalloc.start()
    try:
        assert not rejected_events.late_pairs(broker.cluster, job).entries
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def of(number: int) -> Generation:
    return Generation(number, "local", f"{number:08x}" if number > 1 else "0" * 8)
