"""The check of a topic in both clusters before it is copied: where to start, and whether that leaves no gap.

It runs in threads: brokers may answer slowly for one topic, and the others are copied meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import Future, wait

from cutwater.adapters.fetch.fetcher import Fetcher
from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.adapters.kafka.topic_ids import Identity
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.checks.replication import UNREPLICATED, Replication
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.mirror.compaction_lag import CompactionLagLease
from cutwater.core.mirror.copy_progress import OriginPartition, copied_so_far, initial_position, unaccounted
from cutwater.core.mirror.gaps import GONE, REFUSED, Gap, in_copies, in_copy, in_log, in_origin, in_origins_log
from cutwater.core.mirror.topic_config_sync import copy_of
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.mirror_records import Mirrored, slot_of
from cutwater.core.protocol.topic_settings import FoundTopic
from cutwater.core.util.topic_absence import TopicAbsence
from cutwater.mirror.topics.background import run_in_background
from cutwater.mirror.topics.config_sync import TopicConfigSync
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.origin import ensure, is_empty
from cutwater.mirror.topics.topic_copy import CopiedTopic

AGAIN_S = 1.0
"""Between two checks of one topic."""
AT_ONCE = 4
"""The maximum of concurrent checks."""


class Stop(Exception):
    """The topic cannot be copied."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(gap.text)
        self.gap = gap


class AbsentError(UnavailableError):
    """The origin reports that it has no such topic, which is not believed yet."""


class Preflight:
    """The checks of one mirror, for any number of topics; callers poll for the result."""

    def __init__(
        self,
        context: MirrorContext,
        slots: Collection[int],
        settings: TopicConfigSync,
        replication: Replication = UNREPLICATED,
    ) -> None:
        self._context, self._settings = context, settings
        self._slots, self._replication = slots, replication
        self._witness = LogCheck(context.own)
        self._absences = TopicAbsence(TIMEOUT_S)
        self._under_way: dict[str, Future[CopiedTopic]] = {}
        self._next_s: dict[str, float] = {}
        self.changed = threading.Condition()
        """Notified when records of a topic were fetched."""
        self.known: dict[TopicPartition, Mirrored] = {}
        """The positions from which topics are continued."""

    def find(self, topic: str) -> CopiedTopic | None:
        """Return how to copy a topic; None while that is unknown, or was checked a moment ago. Raises Stop if it
        cannot be copied, UnavailableError if brokers do not answer: call again.
        """
        look = self._under_way.get(topic)
        if look is None:
            if len(self._under_way) < AT_ONCE and self._context.clock_s() >= self._next_s.get(topic, 0.0):
                self._under_way[topic] = run_in_background(f"look {topic}", lambda: self._answer(topic))
            return None
        if not look.done():
            return None
        del self._under_way[topic]
        self._next_s[topic] = self._context.clock_s() + AGAIN_S
        return look.result(TIMEOUT_S)  # already done

    def wait(self, timeout_s: float) -> None:
        """Wait until the running checks have ended, or for `timeout_s`."""
        wait(list(self._under_way.values()), timeout_s)

    # From here on: in the thread.

    def _answer(self, topic: str) -> CopiedTopic:
        try:
            return self._look(topic)
        except UsageError as error:
            raise Stop(Gap(REFUSED, str(error))) from None

    def _look(self, topic: str) -> CopiedTopic:
        asked_s = self._context.clock_s()
        found, identity = self._query_origin(topic)
        changelog = topic.startswith(topics.changelog_prefix(self._context.job))
        held = [one for one in range(identity.partitions) if slot_of(topic, one) in self._slots]
        positions = {place.partition: one for place, one in self.known.items() if place.topic == topic}
        target = mirror_records.target(self._context.job, topic, self._context.region)
        here = ensure(
            self._context.own, copy_of(found, target, self._context.job, self._context.region), self._replication
        )
        _require(in_origin(topic, *identity, positions.values(), here.partitions))
        kept = self._context.origin.log_bounds(topic, held)
        holding, lost = self._context.origin.holding(positions.values())
        gap = in_log(topic, positions, held, kept, from_zero=changelog) or in_origins_log(lost)
        if gap is not None and not self._context.origin.is_still(topic, identity):
            raise UnavailableError(f"{topic} is being deleted or created in {self._context.region} right now")
        _require(gap)
        bases = self._bases(target, here.partitions, held)
        for partition in held:
            known, end = positions.get(partition), bases[partition]
            _require(in_copy(target, known, partition, end, self._is_empty(target, partition, known, end)))
        _require(in_copies(self._witness.find_losses(*copied_so_far(positions.values(), lambda _: target))))
        # Last: a recreated topic must not decide the retention of the copy of the previous one.
        largest = self._settings.take(found, here)
        return CopiedTopic(
            name=topic,
            target=target,
            topic_id=identity.topic_id,
            partitions=identity.partitions,
            spared=CompactionLagLease(self._settings.lag_ms(found), asked_s),
            plain=topic == topics.milestones(self._context.job),
            positions={
                one: positions.get(one)
                or self._first(OriginPartition(topic, one, *identity), kept[one][0], bases[one])
                for one in held
            },
            bases=bases,
            largest=largest,
            holding={place.partition: (positions[place.partition].next, one) for place, one in holding.items()},
            fetcher=self._context.origin.cluster.reader(
                Fetcher, topic, topic_id=identity.topic_id, changed=self.changed, clock_s=self._context.clock_s
            ),
        )

    def _query_origin(self, topic: str) -> tuple[FoundTopic, Identity]:
        """Return the origin's topic. Raises Stop once its absence is believed, UnavailableError until then."""
        try:
            found, identity = (
                self._context.origin.described(topic),
                self._context.origin.identities([topic]).get(topic),
            )
        except UnavailableError:
            self._absences.reset(topic)
            raise
        if found is not None and identity is not None:
            self._absences.reset(topic)
            return found, identity
        if self._absences.record_missing(topic, self._context.clock_s()):
            raise Stop(Gap(GONE, f"{topic} does not exist in {self._context.region}"))
        raise AbsentError(
            f"{self._context.region} reports that {topic} does not exist; has its broker just restarted?"
        )

    def _bases(self, target: str, partitions: int, held: Collection[int]) -> dict[int, int]:
        """Return the ends of the logs here. Raises UnavailableError while a transaction is open there. It may be
        an own one, or another program's whose records are not visible yet.
        """
        # Stable ends first: read last, they would hide a transaction that ends in between, whose marker is not
        # below the end. Records written after it would then look like another program's.
        stable = self._witness.ends.committed_ends([TopicPartition(target, one) for one in held])
        ends = self._witness.ends.topic_ends(target, partitions)
        held_back = [place.partition for place, end in stable.items() if end < ends[place.partition]]
        if held_back:
            raise UnavailableError(f"{target}: a transaction is open in partitions {held_back}")
        return ends

    def _is_empty(self, target: str, partition: int, known: Mirrored | None, end: int) -> bool:
        """Whether every record here is accounted for by a position."""
        if known is not None and unaccounted(known, end) <= 0:
            return True
        return is_empty(self._context.own, target, partition, known.local if known else 0)

    def _first(self, place: OriginPartition, first: int, base: int) -> Mirrored:
        return initial_position(
            self._context.job, self._context.region, place, first, base, self._context.now_ms()
        )


def _require(gap: Gap | None) -> None:
    if gap is not None:
        raise Stop(gap)
