"""A topic that does not take a record is named, whatever its transaction carries besides."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cutwater.adapters.kafka.admin import ensure_topics, set_configs
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.copy_writer import Copies, CopyingWriter, CopyRecord, RejectedError, Reports
from cutwater.core.protocol.topics import TopicSpec

LARGE = CopyRecord(b"k", random.Random(1).randbytes(9_000), [], 0)
FEW = [CopyRecord(b"k", random.Random(2).randbytes(100), [], 0)]
PARTITIONS = 4


@pytest.fixture
def refusing(broker: Any, unique: Callable[[str], str]) -> str:
    """A topic that takes no large records."""
    name = unique("refusing")
    ensure_topics(broker.cluster, [TopicSpec(name, PARTITIONS, ())])
    set_configs(broker.cluster, name, {"max.message.bytes": "2000"})
    return name


@pytest.fixture
def taking(broker: Any, unique: Callable[[str], str]) -> str:
    name = unique("taking")
    ensure_topics(broker.cluster, [TopicSpec(name, PARTITIONS, ())])
    return name


class Listening(CopyingWriter):
    """Counts the records that the client does not even accept."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        self.cut_off = 0
        self.initialise()

    def _offer(self, at: Copies, one: CopyRecord) -> bool:
        try:
            return super()._offer(at, one)
        except KafkaException:
            self.cut_off += 1
            raise


def everywhere(topic: str, records: list[CopyRecord]) -> list[Copies]:
    return [Copies(topic, partition, records) for partition in range(PARTITIONS)]


def refused(one: CopyingWriter, copies: list[Copies]) -> str:
    with pytest.raises(RejectedError, match="larger than the topic") as told:
        one.copy(copies, list)
    return told.value.topic


def test_the_client_takes_no_more_before_it_says_why(
    broker: Any, unique: Callable[[str], str], refusing: str, taking: str
) -> None:
    """Many records come behind the one that is refused; the writer is good for another transaction."""
    one = Listening(broker.cluster, unique("many"))
    for _ in range(5):
        assert refused(one, everywhere(refusing, [LARGE]) + everywhere(taking, FEW * 20_000)) == refusing
        one.copy(everywhere(taking, FEW), list)
    assert one.cut_off, "the client took all of it before it heard of the refusal"


class Forgetting(Listening):
    """What has not been told of when the first report of a transaction comes is told of no more."""

    def _serve_reports(self, serve: Callable[[], int]) -> int:
        left = super()._serve_reports(serve)
        return max(left, 1) if self._reports.failed is not None else left


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Listening, Forgetting])
def test_one_that_is_dropped_itself_is_written_once_more(
    broker: Any,
    unique: Callable[[str], str],
    refusing: str,
    taking: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Listening],
) -> None:
    """The client may tell of what is refused no more than of what goes with it, and of some never."""
    hear, first = Reports.hear, list[Reports]()

    def listen(reports: Reports, error: Any, message: Any) -> None:
        first.append(reports)
        dropped = KafkaError(KafkaError._PURGE_QUEUE)
        hear(reports, dropped if error is not None and reports is first[0] else error, message)

    monkeypatch.setattr(Reports, "hear", listen)
    one = kind(broker.cluster, unique("dropped"))
    assert refused(one, everywhere(refusing, [LARGE]) + everywhere(taking, FEW)) == refusing
    assert first[-1] is not first[0], "it was written twice"
    one.copy(everywhere(taking, FEW), list)


def test_what_is_dropped_beside_it_may_be_told_first(
    broker: Any, unique: Callable[[str], str], refusing: str, taking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, hear = list[int](), Reports.hear

    def listen(reports: Reports, error: Any, message: Any) -> None:
        told.append(error.code())
        hear(reports, error, message)

    monkeypatch.setattr(Reports, "hear", listen)
    for _ in range(30):
        told.clear()
        one = Listening(broker.cluster, unique("few"))
        assert refused(one, everywhere(refusing, [LARGE]) + everywhere(taking, FEW * 50)) == refusing
        if told[0] == KafkaError._PURGE_QUEUE:
            return
    pytest.fail("the client told of what it drops only after what was refused")
