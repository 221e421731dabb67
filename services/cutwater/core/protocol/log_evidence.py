"""Evidence that a log still holds its records below a cut: the topic id and the leader epochs.

Kafka numbers the leaders of a partition (leader epochs), and each leader knows the end offset of earlier epochs in
its log. The epoch of the leader that reported a cut is stored with the cut. Later the current leader returns the
end offset of that epoch. An end below the cut means that acknowledged records are lost, even if the log has grown
again. This detects a leader with a shorter log, a replaced disk and, by the topic id, a recreated topic.

Sources: KIP-101 and KIP-320 (leader epochs), KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cutwater.core.protocol.cuts import Cut, TopicPartition, offsets_text

UNKNOWN = -1
"""An epoch that the brokers do not report, or the end of an epoch that they do not know."""
NAMED_MAX = 8
"""The most partitions that a message about a recreated topic names."""


class TopicEvidence(NamedTuple):
    """The evidence of one topic at a cut."""

    topic: str
    topic_id: str
    """Empty if the brokers have no topic ids."""
    leader_epochs: tuple[int, ...]
    """By partition, from 0 on; UNKNOWN for partitions that were not queried."""

    def leader_epoch(self, partition: int) -> int:
        """Return the leader epoch of a partition; UNKNOWN if it was not queried."""
        return self.leader_epochs[partition] if partition < len(self.leader_epochs) else UNKNOWN


Evidence = tuple[TopicEvidence, ...]


class LogEnd(NamedTuple):
    """The current end of one partition."""

    end: int
    leader_epoch: int


def evidence_of(identities: Mapping[str, str], standings: Mapping[TopicPartition, LogEnd]) -> Evidence:
    """Return the evidence of partitions, sorted by topic. `identities`: the topic ids by name."""
    epochs: dict[str, dict[int, int]] = {}
    for place, standing in standings.items():
        epochs.setdefault(place.topic, {})[place.partition] = standing.leader_epoch
    return tuple(
        TopicEvidence(topic, identities.get(topic, ""), _by_partition(found))
        for topic, found in sorted(epochs.items())
    )


def evidence_of_ends(standings: Mapping[TopicPartition, LogEnd]) -> tuple[Evidence, Cut]:
    """Return the evidence of stored ends, without topic ids, and the ends as a cut."""
    return evidence_of({}, standings), Cut.of({place: one.end for place, one in standings.items()})


def _by_partition(found: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(found.get(number, UNKNOWN) for number in range(max(found) + 1))


def of_topics(evidence: Evidence, topics: Iterable[str]) -> Evidence:
    wanted = frozenset(topics)
    return tuple(one for one in evidence if one.topic in wanted)


def leader_epochs(evidence: Evidence) -> dict[TopicPartition, int]:
    return {
        TopicPartition(one.topic, number): epoch
        for one in evidence
        for number, epoch in enumerate(one.leader_epochs)
        if epoch != UNKNOWN
    }


def recreated_topics(evidence: Evidence, identities: Mapping[str, str], below: Cut) -> list[str]:
    """Return a text for each recreated topic, with its offsets below the cut: all of them are lost."""
    return [
        f"{one.topic} was deleted and recreated (its topic id is {identities[one.topic]}, and was "
        f"{one.topic_id}): {_all_below(one.topic, below)} are gone or are other records now"
        for one in evidence
        if one.topic_id and identities.get(one.topic, one.topic_id) != one.topic_id
    ]


def _all_below(topic: str, below: Cut) -> str:
    lost = [
        f"{offsets_text(0, offset)} of partition {place.partition}"
        for place, offset in below
        if place.topic == topic and offset
    ]
    more = f" and those of {len(lost) - NAMED_MAX} more partitions" if len(lost) > NAMED_MAX else ""
    return ", ".join(lost[:NAMED_MAX]) + more


def partitions_to_verify(
    evidence: Evidence, cut: Cut, standings: Mapping[TopicPartition, LogEnd]
) -> dict[TopicPartition, int]:
    """Return the partitions with another leader than at the cut, with the epoch to query.

    A leader that is still the same has lost nothing.
    """
    known = leader_epochs(evidence)
    return {
        place: known[place]
        for place, offset in cut
        if offset and place in known and standings[place].leader_epoch not in (known[place], UNKNOWN)
    }


def lost_records(cut: Cut, ends: Mapping[TopicPartition, int]) -> list[str]:
    """Return a text for each partition that has lost records below the cut.

    `ends`: by partition, the end offset of the leader epochs up to that of the cut; UNKNOWN if there is none.
    """
    return [_loss_text(place, offset, ends[place]) for place, offset in cut if ends.get(place, offset) < offset]


def _loss_text(place: TopicPartition, offset: int, end: int) -> str:
    name = f"{place.topic}/{place.partition}"
    if end == UNKNOWN:
        return f"{name} does not know the leader that wrote up to offset {offset}"
    gone = offsets_text(end, offset)
    return f"{name} has lost its end: {gone}, acknowledged before, are gone or are other records now"
