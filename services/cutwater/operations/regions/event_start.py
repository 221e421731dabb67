"""Where a generation that continues another region starts to read events: in their copy and in its own source.

`core.failover.failover` decides; here brokers are queried.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import UsageError
from cutwater.core.failover.failover import after_markers, read_to_end, start_cut
from cutwater.core.protocol.cuts import NOWHERE, Cut, TopicPartition
from cutwater.core.protocol.mirror_records import Arrival, Mirrored, from_origin
from cutwater.core.protocol.records import Milestone

PATIENCE_S = 2.0
"""How long to wait for an open transaction of the origin's mirror; older positions are right, too."""


class EventStart:
    """The source of one job in one region. `there`: the brokers of the origin, if they answer."""

    def __init__(self, cluster: Cluster, job: str, source: str, region: str, there: Cluster | None) -> None:
        self._cluster, self._job, self._source = cluster, job, source
        self._region, self._there = region, there

    def cut(self, arrival: Arrival, parent: Milestone, copied: Iterable[Mirrored], last: Milestone | None) -> Cut:
        """Return the start offsets.

        `parent`: the milestone that has arrived, as its region wrote it. `copied`: the positions of the origin's
        copies. `last`: this region's newest milestone.
        """
        name, own = from_origin(self._source, arrival.origin), self._firsts(self._source)
        cut = start_cut(arrival, self._as_read(parent, last, own), self._source, self._region, own)
        firsts = {TopicPartition(name, at): first for at, first in self._firsts(name).items()}
        ends = {TopicPartition(name, one.partition): one.local for one in copied if one.topic == self._source}
        return after_markers(cut, ends, firsts)

    def _as_read(self, parent: Milestone, last: Milestone | None, firsts: dict[int, int]) -> Milestone:
        """Return the milestone with what its region has read of this region's source, as it is now."""
        home = from_origin(self._source, self._region)
        read = {at.partition: offset for at, offset in parent.origin_cut if at.topic == home}
        if not read:
            return parent
        if self._is_recreated(last):
            return replace(parent, origin_cut=NOWHERE)
        if self._there is None or all(first <= read.get(at, first) for at, first in firsts.items()):
            return parent
        with suppress(UsageError):  # without the right to read them: the check of what is kept refuses the start
            there = mirror_topics.positions(self._there, self._job, PATIENCE_S)
            ours = [one for one in there.copies.get(self._region, {}).values() if one.topic == self._source]
            return replace(parent, origin_cut=read_to_end(parent, ours, home))
        return parent

    def _is_recreated(self, last: Milestone | None) -> bool:
        """Return whether this region's source is another topic than the one that its newest milestone had read.
        The origin has copied nothing of it: a generation there reads the copy of the old one.
        """
        known = next((one.topic_id for one in last.evidence if one.topic == self._source), "") if last else ""
        if not known or not self._exists(self._source):
            return False
        now = LogCheck(self._cluster).read_state([TopicPartition(self._source, 0)]).identities
        return now.get(self._source, known) != known

    def _firsts(self, topic: str) -> dict[int, int]:
        """Return the first offset of each partition of a topic; nothing if it does not exist."""
        if not self._exists(topic):
            return {}
        kept = Offsets(self._cluster).topic_bounds(topic, range(partition_count(self._cluster, topic)))
        return {partition: first for partition, (first, _) in kept.items()}

    def _exists(self, topic: str) -> bool:
        return bool(descriptions(self._cluster, [topic]))
