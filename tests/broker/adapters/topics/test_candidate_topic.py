"""A driver's look at the job's candidates: before each epoch, so it must not wait for a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim
from cutwater_spark.epoch.pauses import CandidateTopic
from support.harness import wait_until

SECOND = Generation(2, "local", "0" * 8)


class Log:
    def warning(self, *_: object, **about: object) -> None:
        raise AssertionError(about)


@pytest.fixture
def job(broker: Any, unique: Callable[[str], str]) -> str:
    name = unique("looks")
    ensure_topics(broker.cluster, [topics.TopicSpec(topics.candidates(name), 1, ())])
    return name


@pytest.fixture
def looks(broker: Any, job: str) -> Iterator[CandidateTopic]:
    with closing(CandidateTopic(broker.cluster, job, Log())) as made:
        yield made


def claim(broker: Any, job: str, generation: Generation) -> None:
    writer = TransactionalWriter(broker.cluster, topics.claims_id(job))
    writer.initialise()
    claimed = Claim(job, generation, b"parent", 2, 0, "", 1_700_000_000_000)
    writer.write(topics.candidates(job), [protocol_records.encode(claimed)])


def test_the_first_look_reads_all_and_a_later_one_asks_for_nothing(
    broker: Any, job: str, looks: CandidateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a question for the topic's end would wait behind the consumer's own fetch."""
    claim(broker, job, SECOND)
    assert list(looks.known(0).by_id) == [SECOND]
    monkeypatch.delattr(Tail, "to_end")
    third = Generation(3, "local", "1" * 8)
    claim(broker, job, third)
    wait_until(lambda: list(looks.known(0).by_id) == [SECOND, third], "the new claim arrives by itself")
    assert looks.known(0).by_id[third].claim.parent == b"parent"
