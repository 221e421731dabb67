"""The milestones of both generations, from their topics, in the order of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import bounds
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.long_lived_consumer import LongLivedConsumer
from cutwater.adapters.topics.candidates import candidacy
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from cutwater.views.follow.milestone_feed import MilestoneFeed


class LiveMilestones(NamedTuple):
    entries: list[Entry]
    """New ones of the generation that the candidate started from, that milestone the first."""
    successor: Milestone | None
    """The first milestone of a later generation, once one is promoted."""


class LiveFeed:
    """Follows the commit stream from a candidate's parent milestone on."""

    def __init__(self, cluster: Cluster, job: str, parent: Milestone) -> None:
        self._parent = parent
        self._feed = MilestoneFeed(cluster, topics.milestones(job), None)

    def close(self) -> None:
        self._feed.close()

    def poll(self, timeout_s: float) -> LiveMilestones:
        """Return what is new; wait up to `timeout_s` for it. Raises as `MilestoneFeed`."""
        found, successor = list[Entry](), None
        for one in self._feed.poll(timeout_s):
            if not isinstance(one, Entry):
                continue
            milestone = one.milestone
            if milestone.generation == self._parent.generation and milestone.sequence >= self._parent.sequence:
                found.append(one)
            elif milestone.generation.number > self._parent.generation.number:
                successor = successor or milestone
        return LiveMilestones(found, successor)


class CandidateFeed:
    """Follows the candidates topic: one candidate's milestones, and what is known of it."""

    def __init__(self, cluster: Cluster, job: str, generation: Generation) -> None:
        topic = topics.candidates(job)
        self._generation = generation
        self._known = Candidates()
        self._read = LongLivedConsumer(cluster, topic)
        low, self._end = bounds(self._read.consumer, topic, 0)
        self._read.begin({0: low})

    def close(self) -> None:
        self._read.close()

    @property
    def is_read(self) -> bool:
        """Whether what was there at the start has been read."""
        return self._read.next(0) >= self._end

    @property
    def candidate(self) -> Candidate:
        """The candidate, as far as the topic has been read. Raises UsageError if it was never claimed."""
        return self._known.require(self._generation)

    def poll(self, timeout_s: float) -> Iterator[Entry]:
        """Yield its new milestones; wait up to `timeout_s` for any record."""
        for message in self._read.read(timeout_s):
            value = bytes(message.value())
            record = candidacy(protocol_records.decode(value))
            self._known = self._known.after(record)
            if isinstance(record, Milestone) and record.generation == self._generation:
                yield Entry(record, value, message.offset())
