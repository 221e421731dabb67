"""The parts of a parent's logs in this region: whether its changelog can still give its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from cutwater.adapters.kafka.client import make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import UsageError
from cutwater.core.generations.seed_check import compaction_risk, may_be_overtaken, missing_changelog
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.records import Milestone


def changelog_problem(
    cluster: Cluster, job: str, parent: Milestone, region: str, now_ms: Callable[[], int]
) -> str:
    """Return why the parent's changelog cannot give its complete state at the milestone; empty if it can.
    `parent`: with its cuts in this region's offsets. `region`: this one."""
    try:
        kept = kept_behind(cluster, parent.changelog_cut)
    except UsageError as error:  # after retries
        return f"its changelog is not here ({error})"
    if why := missing_changelog(parent, kept) or "; ".join(
        LogCheck(cluster).find_losses(parent.evidence, parent.changelog_cut)
    ):
        return why
    if not may_be_overtaken(parent, now_ms()):
        return ""
    copied = {} if parent.generation.region == region else copies_end(cluster, job)
    above = first_above_ms(cluster, parent.changelog_cut, copied)
    return compaction_risk(parent, above.values(), now_ms())


def kept_behind(cluster: Cluster, cut: Cut) -> dict[TopicPartition, tuple[int, int]]:
    """Return first offset and end of each partition of a cut."""
    ends, named = Offsets(cluster), dict[str, list[int]]()
    for place, _ in cut:
        named.setdefault(place.topic, []).append(place.partition)
    return {
        TopicPartition(topic, number): bounds
        for topic, numbers in named.items()
        for number, bounds in ends.topic_bounds(topic, numbers).items()
    }


def copies_end(cluster: Cluster, job: str) -> dict[TopicPartition, int]:
    """Return for each copied changelog partition the offset after the mirror's last record."""
    if not mirror_topics.has_mirror(cluster, job):
        return {}
    copied, changelogs = mirror_topics.positions(cluster, job).every, topics.changelog_prefix(job)
    return {
        TopicPartition(one.topic, one.partition): one.local for one in copied if one.topic.startswith(changelogs)
    }


def first_above_ms(
    cluster: Cluster, cut: Cut, copied: Mapping[TopicPartition, int] = MappingProxyType({})
) -> dict[int, int | None]:
    """Return for each changelog partition the log time of the first record above the cut; None if there is
    none. `copied`: as from `copies_end`. Above it a copy has only transaction markers and aborted records, for
    which compaction removes no value."""
    ends, found = Offsets(cluster), dict[int, int | None]()
    consumer = make_consumer(cluster, **{"isolation.level": "read_uncommitted", **QUIET})
    try:
        for place, offset in cut:
            found[place.partition] = None
            end = ends.topic_ends(place.topic, len(cut))[place.partition]
            if offset < min(end, copied.get(place, end)):
                first = next(read_range(consumer, place.topic, place.partition, offset, end), None)
                # compaction has removed the records that were there
                found[place.partition] = first.timestamp()[1] if first else 0
    finally:
        consumer.close()
    return found
