"""Announces arrivals: follows the copied milestones and the positions here, and writes arrivals.

It reads only its own region, so it continues while the origin does not answer. Of a mirror's processes the one
that holds slot 0 writes; the others only learn here which generations exist.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import bounds
from cutwater.adapters.kafka.long_lived_consumer import LongLivedConsumer
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.adapters.topics.mirror_topics import Positions, last_arrival
from cutwater.adapters.topics.own_writes import OwnLog
from cutwater.core.errors import FencedError, LostRecordsError, UnavailableError, UsageError
from cutwater.core.mirror.arrivals import ArrivalTracker
from cutwater.core.mirror.copy_progress import copied_so_far
from cutwater.core.mirror.resync_guard import require_settled
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import Evidence, lost_records, of_topics
from cutwater.core.protocol.mirror_records import Arrival, Mirrored, parse_position_key
from cutwater.core.state.backlog import Entry
from cutwater.core.state.reader_names import MIRROR
from cutwater.mirror.arrivals.arrival_tracer import ArrivalTracer
from cutwater.mirror.topics.context import MirrorContext
from cutwater.views.follow.milestone_feed import MilestoneFeed


class ArrivalAnnouncer:
    """The arrivals of one origin."""

    def __init__(
        self,
        context: MirrorContext,
        source: str,
        writes: bool = True,
        sleep: Callable[[float], object] = time.sleep,
        tracer: ArrivalTracer | None = None,
    ) -> None:
        """`source`: the origin's source topic; empty if the job has none. `tracer`: None without a collector."""
        own, job, region = context.own, context.job, context.region
        self._context, self._source, self._tracer = context, source, tracer
        self._topic, self._witness = mirror_records.arrivals(job, region), LogCheck(own)
        self._seen: tuple[Evidence, Cut] = (), Cut()
        """Evidence and ends of the copies at the last announcement."""
        self._writer = TransactionalWriter(own, mirror_records.arrivals_id(job, region)) if writes else None
        self._own_log = OwnLog(own, [TopicPartition(self._topic, 0)], "the mirror", sleep)
        self._fold = Positions()
        self._feed: MilestoneFeed | None = None
        self._positions: LongLivedConsumer | None = None
        self._until = 1
        self.ledger = ArrivalTracker(job, region, self._target, self._copied)
        self.began_behind: Arrival | None = None
        """The newest arrival at the start, of any writer."""
        self.generations: set[Generation] = set()
        """The generations that the copied milestones name, from the start position on."""

    def open(self) -> None:
        """Fence an older writer, and continue after the last arrival. Raises UnavailableError if the arrivals lost
        the end of a transaction, which hides later records.
        """
        if self._writer:
            self._writer.initialise()
            self._own_log.begin()
        # First: after a resync that has ended by now there are other arrivals than before it.
        self._until = Offsets(self._context.own).topic_ends(mirror_records.positions(self._context.job), 1)[0]
        self.began_behind = last = last_arrival(self._context.own, self._context.job, self._context.region)
        if last is not None:
            self._seen = last.evidence, last.source_cut.and_(last.changelog_cut)
        # A process that announces nothing does not learn of later arrivals.
        arrived = last if self._writer else None
        self.ledger = ArrivalTracker(self._context.job, self._context.region, self._target, self._copied, arrived)
        place = mirror_records.milestones_from(self._context.job, self._context.region)
        self._feed = MilestoneFeed(self._context.own, place, last.stream_offset if last else None, MIRROR)
        topic = mirror_records.positions(self._context.job)
        self._positions = LongLivedConsumer(self._context.own, topic)
        low, _ = bounds(self._positions.consumer, topic, 0)
        self._positions.begin({0: low})

    def require_own(self) -> None:
        """Raise FencedError if another mirror announces arrivals now."""
        if self._writer:
            self._writer.require_own(mirror_records.positions(self._context.job))

    def close(self) -> None:
        if self._feed:
            self._feed.close()
        if self._positions:
            self._positions.close()

    def listen(self) -> None:
        """Read new positions and operators' records. Raises FencedError if a resync of the origin has started:
        this process is fenced next.
        """
        self._take_positions()
        if self._knows:
            self._require_settled()
        self._context.metrics.set_pending(self.ledger)

    def step(self) -> None:
        """Announce new arrivals. Raises DivergenceError if the copied stream is broken."""
        for one in self._feed.poll(0.0) if self._feed else ():
            if isinstance(one, Entry):
                self._require_origins(one.milestone.generation)
                self.generations.add(one.milestone.generation)
                if self._writer:
                    self.ledger.milestone_copied(one)
                    if self._tracer:
                        self._tracer.copied(one.milestone, self._context.now_ms())
        now = self._context.now_ms()
        if self._writer and self._knows:
            self._announce(self._writer, self._with_evidence(list(self.ledger.arrivals(now))))

    def _require_settled(self) -> None:
        try:
            require_settled(self._context.region, self._fold.renewed(self._context.region))
        except UnavailableError as error:
            raise FencedError(f"{error}; this mirror exits") from None

    def _take_positions(self) -> None:
        for message in self._positions.read(0.0) if self._positions else ():
            if message.offset() >= self._until:
                self._require_settled()  # also for a resync that ended before this process heard of it
            self._take_position(bytes(message.key() or b""), message.value())

    def _take_position(self, key: bytes, value: bytes | None) -> None:
        one = self._fold.take(key, value)
        if isinstance(one, Mirrored) and one.origin == self._context.region:
            self.ledger.copy_moved(one)
        elif one is None and parse_position_key(key)[0] == self._context.region:
            self.ledger.copy_forgotten(parse_position_key(key)[1])

    @property
    def _knows(self) -> bool:
        """Whether the positions of the start are read: older ones may be of a copy that was given up."""
        return self._positions is not None and self._positions.next(0) >= self._until

    @property
    def paused(self) -> bool:
        """Whether an operator paused the mirror, or this is not known yet."""
        said = self._fold.steering.get(self._context.region)
        return not self._knows or (said is not None and said.paused)

    def _with_evidence(self, arrivals: list[Arrival]) -> list[Arrival]:
        """Return the arrivals with the evidence of their topics here.

        Raises LostRecordsError if a copy has lost records below a cut, or records that it had when they were
        copied or at the last announcement: other records may have their offsets now.
        """
        if not arrivals:
            return []
        cuts = [one.source_cut.and_(one.changelog_cut) for one in arrivals]
        cut = reduce(Cut.and_, cuts)
        look = self._witness.read_state(place for place, _ in cut)
        short = lost_records(cut, {place: one.end for place, one in look.standings.items()})
        copies = self._fold.copies.get(self._context.region, {}).values()
        for evidence, before in (self._seen, copied_so_far(copies, self._target)):
            below = Cut(tuple(entry for entry in before if entry[0] in look.standings))
            short = short or self._witness.find_losses(evidence, below, look)
        if short:
            raise LostRecordsError(
                f"the copy of region {self._context.region}: {'; '.join(short)}. Run 'cutwater mirror resync' for "
                "these copies while the region is up"
            )
        self._seen = look.evidence, look.cut
        named = [{place.topic for place, _ in one} for one in cuts]
        return [
            replace(one, evidence=of_topics(look.evidence, its)) for one, its in zip(arrivals, named, strict=True)
        ]

    def _announce(self, writer: TransactionalWriter, arrivals: list[Arrival]) -> None:
        if arrivals:
            reach("arrival-due")
            writer.write(self._topic, [protocol_records.encode(one) for one in arrivals])
            reach("arrival-written")
        else:
            writer.listen()
        for one in arrivals:
            self._context.metrics.arrived(one, self._tracer.arrived(one) if self._tracer else None)
            self._context.log.info("arrival", token=str(one.token))
        for passed in self.ledger.passed:
            self._context.metrics.passed()
            self._context.log.info("no arrival", token=str(passed.milestone.token), reason=passed.reason)
        self.ledger.passed.clear()

    def _target(self, topic: str) -> str:
        return mirror_records.target(self._context.job, topic, self._context.region)

    def _copied(self, topic: str) -> bool:
        return topic == self._source or topic.startswith(topics.changelog_prefix(self._context.job))

    def _require_origins(self, generation: Generation) -> None:
        """Raise UsageError for a generation of another region: its changelog may be an original here."""
        if generation.region != self._context.region:
            raise UsageError(
                f"the origin's commit stream names generation {generation}, and CUTWATER_ORIGIN_REGION is "
                f"{self._context.region}: set it to the region of the origin's generations"
            )
