"""A process that is held up in a transaction is no fenced process: it starts again, and is told so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.writers import transactional_writer
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.errors import FencedError, UnavailableError
from cutwater.core.protocol.topics import TopicSpec

pytestmark = pytest.mark.slow

TIMEOUT_MS = 2_000
ABORTED_S = 20.0
"""The brokers look every 10 s for transactions that are past their time-out."""


@pytest.fixture
def topic(broker: Any, unique: Callable[[str], str]) -> str:
    name = unique("held")
    ensure_topics(broker.cluster, [TopicSpec(name, 1, ())])
    return name


def values(broker: Any, topic: str) -> list[bytes | None]:
    consumer = make_consumer(broker.cluster)
    _, end = bounds(consumer, topic, 0)
    found = [message.value() for message in read_range(consumer, topic, 0, 0, end)]
    consumer.close()
    return found


def test_held_up_for_longer_than_a_transaction_may_take(
    broker: Any, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers abort what it had begun; nobody has taken over, so the error is one that a restart mends."""
    monkeypatch.setattr(transactional_writer, "TRANSACTION_TIMEOUT_MS", TIMEOUT_MS)
    writer = TransactionalWriter(broker.cluster, topic)
    writer.initialise()
    writer.write(topic, [b"before"])
    with monkeypatch.context() as held:
        held.setattr(transactional_writer, "reach", lambda _point: time.sleep(ABORTED_S))
        with pytest.raises(UnavailableError, match="held up for longer than a transaction may take"):
            writer.write(topic, [b"lost"])
    again = TransactionalWriter(broker.cluster, topic)
    again.initialise()
    again.write(topic, [b"after"])
    assert values(broker, topic) == [b"before", b"after"]


def test_who_is_overtaken_is_fenced(broker: Any, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the time-out there is one explanation only."""
    older, newer = TransactionalWriter(broker.cluster, topic), TransactionalWriter(broker.cluster, topic)
    older.initialise()
    with monkeypatch.context() as held:
        held.setattr(transactional_writer, "reach", lambda _point: newer.initialise())
        with pytest.raises(FencedError, match="a newer process has taken over"):
            older.write(topic, [b"lost"])
    newer.write(topic, [b"newer"])
    assert values(broker, topic) == [b"newer"]
