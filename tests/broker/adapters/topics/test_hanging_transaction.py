"""An open transaction hides the end of commit stream or barriers: whoever reads says so, and how it is ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import make_consumer
from cutwater.adapters.topics.hanging_transaction import HangingTransaction
from cutwater.commit_signal.broker_liveness import Brokers
from cutwater.commit_signal.metrics import Metrics
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.records import Start
from cutwater.core.protocol.topics import TopicSpec
from cutwater.views.query.view import State
from cutwater_spark.epoch.barriers import BarrierLog
from support.views.changelogs import GENERATION, Following, Writing, make_job, now_ms, until
from support.views.ways import sales


def test_a_view_names_the_transaction_that_hides_its_stream(broker: Any, tmp_path: Path) -> None:
    """While it is open the view waits and says why; once it is ended, it goes on, and says nothing."""
    job, _ = make_job(tmp_path / "job", 2)
    stream = topics.milestones(job.name)
    writing = Writing(broker.cluster, job)
    writing.epoch(sales(0))
    view = Following(broker.cluster, job, tmp_path / "view", now_ms, silent_s=0.2)
    try:
        view.wait_for(1)
        with left_open(broker.cluster, stream):
            writing.epoch(sales(1))
            until(lambda: "a transaction is open" in view.view.status.reason, "the view to say what hides it")
            status = view.view.status
            assert status.state is State.WAITING
            assert f"abort --topic {stream} --partition 0 --start-offset" in status.reason
            assert view.view.milestone is not None
            assert view.view.milestone.sequence == 1
        view.wait_for(2)
        until(lambda: view.view.status.state is State.FOLLOWING, "the view to follow again")
        assert view.view.status.reason == ""
    finally:
        view.end()
        writing.close()


@contextmanager
def left_open(cluster: Any, topic: str) -> Iterator[None]:
    """Somebody's transaction, which nobody ends until the block is left."""
    somebody = Producer({**cluster.librdkafka(), "transactional.id": f"{topic}.nobody", "linger.ms": 0})
    somebody.init_transactions(30)
    somebody.begin_transaction()
    somebody.produce(topic, b"x", partition=0)
    somebody.flush(10)
    yield
    somebody.abort_transaction(30)


@pytest.fixture
def barriers(broker: Any, unique: Callable[[str], str]) -> str:
    """The job of a topic of barriers."""
    job = unique("hidden")
    ensure_topics(broker.cluster, [TopicSpec(topics.barriers(job), 1, ())])
    return job


def test_commit_signal_names_the_transaction_that_hides_the_barriers(broker: Any, barriers: str) -> None:
    """One line and a metric while it is open; one more once it is over."""
    topic, now_s, metrics = topics.barriers(barriers), [0.0], Metrics()
    lines: list[str] = []

    class Lines:
        def warning(self, _event: str, **what: str) -> None:
            lines.append(what["reason"])

        info = warning

    brokers = Brokers(broker.cluster, topic, Lines(), metrics, now_ms, lambda: now_s[0])
    consumer = make_consumer(broker.cluster)
    try:
        with left_open(broker.cluster, topic):
            for _ in range(3):
                now_s[0] += 100.0
                assert brokers.check(consumer)
            assert metrics.registry.get_sample_value("cutwater_signal_waiting") == 1

        def over() -> bool:
            now_s[0] += 100.0
            return brokers.check(consumer) and metrics.registry.get_sample_value("cutwater_signal_waiting") == 0

        until(over, "the barriers to be seen again")
    finally:
        consumer.close()
    assert len(lines) == 2
    assert f"{topic}/0: a transaction is open at offset 0" in lines[0]
    assert "If a driver has none, end it: 'kafka-transactions.sh" in lines[0]


def test_a_driver_does_not_begin_in_front_of_a_transaction_without_an_end(broker: Any, barriers: str) -> None:
    """It would not see the attempts behind it, and take a number that has been."""
    written = BarrierLog(broker.cluster, barriers, GENERATION)
    written.open()
    with left_open(broker.cluster, topics.barriers(barriers)):
        written.write(Start(barriers, GENERATION, 1, 1))
        with pytest.raises(UnavailableError, match="a transaction is open at offset 0, and the driver has none"):
            BarrierLog(broker.cluster, barriers, GENERATION, sleep=lambda _s: None).open()
    assert BarrierLog(broker.cluster, barriers, GENERATION).open().attempt == 1


def test_a_transaction_that_goes_on_is_no_hidden_one() -> None:
    """The same offset at two looks: one that ends, and another that begins, is commit-signal at work."""

    class Moving:
        seen = 0

        def committed_ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
            self.seen += 2
            return {places[0]: self.seen}

        def written_ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
            return {places[0]: self.seen + 1}

    now_s = [0.0]
    nobody: Any = None
    one = HangingTransaction(nobody, "t", "commit-signal", 1.0, lambda: now_s[0])
    ends: Any = Moving()
    one._ends = ends
    for _ in range(20):
        now_s[0] += 1.5
        one.check()
        assert one.text == ""
    ends.committed_ends = lambda places: {places[0]: 40}
    ends.written_ends = lambda places: {places[0]: 43}
    for _ in range(2):
        now_s[0] += 1.5
        one.check()
    assert "open at offset 40, and 3 offsets from there on" in one.text
    one.reset()
    assert one.text == ""
