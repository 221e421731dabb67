"""Deleted topics, on a real broker: gone is gone, also for who asks while it happens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cutwater.adapters.kafka import admin
from cutwater.core.protocol.topics import TopicSpec

TOPICS = 40


def test_who_asks_while_topics_are_deleted_is_told_of_those_that_are_left(
    broker: Any, unique: Callable[[str], str]
) -> None:
    """Between two questions a topic may go: it is absent then, and never an error."""
    names = [unique(f"leaving{number}") for number in range(TOPICS)]
    admin.create_topics(broker.cluster, [TopicSpec(one, 1, ()) for one in names])
    counts: list[int] = []
    deleting = threading.Thread(target=lambda: [admin.delete_topics(broker.cluster, [one]) for one in names])
    deleting.start()
    while deleting.is_alive():
        counts.append(len(admin.describe_topics(broker.cluster, names)))
    assert any(0 < one < TOPICS for one in counts), "nobody asked in the middle of it"
    assert counts == sorted(counts, reverse=True)
    assert admin.describe_topics(broker.cluster, names) == {}


def test_a_topic_can_be_made_anew_as_soon_as_it_is_deleted(broker: Any, unique: Callable[[str], str]) -> None:
    """Deleting returns when it is no longer seen: what follows does not take it for one that exists."""
    topic = unique("again")
    for partitions in range(1, 21):
        assert admin.ensure_topics(broker.cluster, [TopicSpec(topic, partitions, ())]) == [topic]
        assert len(admin.descriptions(broker.cluster, [topic])[topic].partitions) == partitions
        assert admin.delete_topics(broker.cluster, [topic]) == [topic]
