"""Does a log still hold what it held at a cut? Told by which topic it is, and by its leaders' epochs.

Kafka counts the leaders of a partition, and each leader knows where the records of those before it end in its own
log. Whoever notes, beside a cut, the topic's identity and the number of the leader that told the cut, can ask
later: where do the records end that leaders up to this one wrote? Below the cut means that acknowledged records
are lost, be the log as long again as it was. So a replica that took over with less, a disk that was replaced and a
topic that was made anew are all found.

Sources: KIP-101 and KIP-320 (leader epochs), KIP-516 (identities of topics).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cutwater.core.protocol.cuts import Cut, TopicPartition

UNKNOWN = -1
"""An epoch that the brokers do not tell, and the end of one that they do not know."""


class TopicEvidence(NamedTuple):
    """Of one topic, as its brokers told it at a cut."""

    topic: str
    topic_id: str
    """Empty where the brokers give topics none."""
    leader_epochs: tuple[int, ...]
    """By partition, from 0 on; UNKNOWN for one that was not asked for."""

    def leader_epoch(self, partition: int) -> int:
        """UNKNOWN for one that was not asked for."""
        return self.leader_epochs[partition] if partition < len(self.leader_epochs) else UNKNOWN


Evidence = tuple[TopicEvidence, ...]


class Standing(NamedTuple):
    """What brokers say of one partition now."""

    end: int
    """Its next offset."""
    leader_epoch: int


def evidence_of(identities: Mapping[str, str], standings: Mapping[TopicPartition, Standing]) -> Evidence:
    """By topic, sorted. `identities`: of each topic that has one."""
    epochs: dict[str, dict[int, int]] = {}
    for place, standing in standings.items():
        epochs.setdefault(place.topic, {})[place.partition] = standing.leader_epoch
    return tuple(
        TopicEvidence(topic, identities.get(topic, ""), _by_partition(found))
        for topic, found in sorted(epochs.items())
    )


def of_ends(standings: Mapping[TopicPartition, Standing]) -> tuple[Evidence, Cut]:
    """Of ends that somebody has noted, and these as a cut; of the topics' identities nothing is said."""
    return evidence_of({}, standings), Cut.of({place: one.end for place, one in standings.items()})


def _by_partition(found: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(found.get(number, UNKNOWN) for number in range(max(found) + 1))


def of_topics(evidence: Evidence, topics: Iterable[str]) -> Evidence:
    """The part that is about these topics."""
    wanted = frozenset(topics)
    return tuple(one for one in evidence if one.topic in wanted)


def leader_epochs(evidence: Evidence) -> dict[TopicPartition, int]:
    """Of each partition of which one is known."""
    return {
        TopicPartition(one.topic, number): epoch
        for one in evidence
        for number, epoch in enumerate(one.leader_epochs)
        if epoch != UNKNOWN
    }


def made_anew(evidence: Evidence, identities: Mapping[str, str]) -> list[str]:
    """A text for each topic that is another one than it was."""
    return [
        f"{one.topic} was deleted and made anew (its identity is {identities[one.topic]}, and was {one.topic_id})"
        for one in evidence
        if one.topic_id and identities.get(one.topic, one.topic_id) != one.topic_id
    ]


def doubtful(
    evidence: Evidence, cut: Cut, standings: Mapping[TopicPartition, Standing]
) -> dict[TopicPartition, int]:
    """The partitions that another leader has by now, with the epoch to be asked about.

    While the leader is the same one, its log has lost nothing.
    """
    known = leader_epochs(evidence)
    return {
        place: known[place]
        for place, offset in cut
        if offset and place in known and standings[place].leader_epoch not in (known[place], UNKNOWN)
    }


def lost(cut: Cut, ends: Mapping[TopicPartition, int]) -> list[str]:
    """A text for each partition that has lost records below the cut.

    `ends`: of partitions, where what the leaders up to that of the cut wrote ends; UNKNOWN where nobody knows.
    """
    return [_told(place, offset, ends[place]) for place, offset in cut if ends.get(place, offset) < offset]


def _told(place: TopicPartition, offset: int, end: int) -> str:
    name = f"{place.topic}/{place.partition}"
    if end == UNKNOWN:
        return f"{name} does not know the leader that wrote up to offset {offset}"
    gone = f"offset {end}" if offset == end + 1 else f"offsets {end} to {offset - 1}"
    return f"{name} has lost its end: {gone}, acknowledged before, are not there any more or are other records"
