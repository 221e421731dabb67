"""Checks that logs have lost nothing below a cut. `core.protocol.log_evidence` defines the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.topic_ids import TopicIds
from cutwater.core.errors import LostRecordsError
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.log_evidence import (
    UNKNOWN,
    Evidence,
    LogEnd,
    evidence_of,
    lost_records,
    of_topics,
    partitions_to_verify,
    recreated_topics,
)


class LogState(NamedTuple):
    """The brokers' answers at one time."""

    identities: Mapping[str, str]
    """Topic ids of the existing topics."""
    standings: Mapping[TopicPartition, LogEnd]

    @property
    def evidence(self) -> Evidence:
        """Evidence for a cut at or below the reported ends."""
        return evidence_of(self.identities, self.standings)

    @property
    def cut(self) -> Cut:
        return Cut.of({place: one.end for place, one in self.standings.items()})

    def changes_since(self, earlier: LogState, places: Iterable[TopicPartition]) -> list[str]:
        """Return a text for each of the places that has another leader now, or is on another topic of its name.
        Places that either state does not have, and leaders that it does not know, are no change."""
        return [
            f"{place.topic}/{place.partition} has leader epoch {now.leader_epoch}, and had {then.leader_epoch}"
            for place in places
            if (now := self.standings.get(place)) and (then := earlier.standings.get(place))
            if (UNKNOWN not in (now.leader_epoch, then.leader_epoch) and now.leader_epoch != then.leader_epoch)
            or self.identities.get(place.topic) != earlier.identities.get(place.topic)
        ]


class LogCheck:
    """Checks logs over connections that stay; those for earlier leaders are opened only after a leader change.

    Each query raises UnavailableError if the brokers do not answer, UsageError if a topic is unknown.
    """

    def __init__(self, cluster: Cluster, patience_s: float = TIMEOUT_S) -> None:
        self._cluster, self._patience_s = cluster, patience_s
        self.ends, self._identities = Offsets(cluster, patience_s), TopicIds(cluster, patience_s)

    def read_state(self, places: Iterable[TopicPartition]) -> LogState:
        asked = list(places)
        identities = self._identities.read({place.topic for place in asked})
        return LogState(
            {topic: one.topic_id for topic, one in identities.items()}, self.ends.ends_with_epochs(asked)
        )

    def find_losses(self, evidence: Evidence, cut: Cut, look: LogState | None = None) -> list[str]:
        """Return descriptions of what is lost below the cut; empty if nothing is, or without evidence about it.

        `look`: a state of all places of the cut; by default the brokers are queried.
        """
        told = frozenset(one.topic for one in evidence)
        below = Cut(tuple((place, offset) for place, offset in cut if offset and place.topic in told))
        if not below.entries:
            return []
        now = look or self.read_state(place for place, _ in below)
        about = of_topics(evidence, (place.topic for place, _ in below))
        if found := recreated_topics(about, now.identities, below):
            return found
        short = lost_records(below, {place: now.standings[place].end for place, _ in below})
        return short or lost_records(below, self._ends_of(partitions_to_verify(about, below, now.standings)))

    def common_ends(self, evidence: Evidence, cut: Cut) -> dict[TopicPartition, int]:
        """Return, for each partition that has lost records below the cut, the offset below which it may still hold
        them; UNKNOWN if it knows no leader of that time. Topic ids are not compared."""
        now = self.read_state(place for place, _ in cut)
        ends = self._ends_of(partitions_to_verify(evidence, cut, now.standings))
        lowest = {place: min(now.standings[place].end, ends.get(place, offset)) for place, offset in cut}
        return {place: lowest[place] for place, offset in cut if lowest[place] < offset}

    def require(self, evidence: Evidence, cut: Cut, of: str, look: LogState | None = None) -> None:
        """Raise LostRecordsError with what is lost below the cut of `of`, if anything is."""
        if found := self.find_losses(evidence, cut, look):
            raise LostRecordsError(
                f"below the cut of {of} {'; '.join(found)}. What was shown before stays. Start a new generation "
                "from a milestone that does not need them: an earlier one, or one with a snapshot"
            )

    def _ends_of(self, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not epochs:
            return {}
        from cutwater.adapters.fetch.leader_epochs import LeaderEpochs  # imports aiokafka, which takes 0.1 s

        by_topic: dict[str, dict[int, int]] = {}
        for place, epoch in epochs.items():
            by_topic.setdefault(place.topic, {})[place.partition] = epoch
        return {
            TopicPartition(topic, partition): end
            for topic, asked in by_topic.items()
            for partition, end in self._cluster.reader(LeaderEpochs, topic, patience_s=self._patience_s)
            .ends(asked)
            .items()
        }
