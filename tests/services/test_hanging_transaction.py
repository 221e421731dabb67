"""A commit stream of which an open transaction hides the end: the view says so, and how it is ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from changelogs import Following, Writing, make_job, now_ms, until
from confluent_kafka import Producer
from ways import sales

from cutwater.core import topics
from cutwater.core.cuts import TopicPartition
from cutwater.views.hanging_transaction import HangingTransaction
from cutwater.views.view import State


def test_a_view_names_the_transaction_that_hides_its_stream(broker: Any, tmp_path: Path) -> None:
    """While it is open the view waits and says why; once it is ended, it goes on, and says nothing."""
    job, _ = make_job(tmp_path / "job", 2)
    stream = topics.milestones(job.name)
    writing = Writing(broker.cluster, job)
    writing.epoch(sales(0))
    view = Following(broker.cluster, job, tmp_path / "view", now_ms, silent_s=0.2)
    try:
        view.wait_for(1)
        somebody = Producer(
            {**broker.cluster.librdkafka(), "transactional.id": f"{stream}.nobody", "linger.ms": 0}
        )
        somebody.init_transactions(30)
        somebody.begin_transaction()
        somebody.produce(stream, b"x", partition=0)
        somebody.flush(10)
        writing.epoch(sales(1))
        until(lambda: "a transaction is open" in view.view.status.reason, "the view to say what hides its stream")
        status = view.view.status
        assert status.state is State.WAITING
        assert f"abort --topic {stream} --partition 0 --start-offset" in status.reason
        assert view.view.milestone is not None
        assert view.view.milestone.sequence == 1
        somebody.abort_transaction(30)
        view.wait_for(2)
        until(lambda: view.view.status.state is State.FOLLOWING, "the view to follow again")
        assert view.view.status.reason == ""
    finally:
        view.end()
        writing.close()


def test_a_transaction_that_goes_on_is_no_hidden_one() -> None:
    """The same offset at two looks: one that ends, and another that begins, is commit-signal at work."""

    class Moving:
        seen = 0

        def committed(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
            self.seen += 2
            return {places[0]: self.seen}

        def written(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
            return {places[0]: self.seen + 1}

    now_s = [0.0]
    nobody: Any = None
    one = HangingTransaction(nobody, "t", 1.0, lambda: now_s[0])
    ends: Any = Moving()
    one._ends = ends
    for _ in range(20):
        now_s[0] += 1.5
        one.look()
        assert one.text == ""
    ends.committed = lambda places: {places[0]: 40}
    ends.written = lambda places: {places[0]: 43}
    for _ in range(2):
        now_s[0] += 1.5
        one.look()
    assert "open at offset 40, and 3 offsets from there on" in one.text
    one.came()
    assert one.text == ""
