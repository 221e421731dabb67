"""Detects that the origin has continued after a milestone from which this region has continued, too.

When two regions reconnect after a failover, the mirror sees it first: the copied milestones contradict those of
this region. A thread checks every 10 seconds, and reads nothing if nothing is new.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.topic_ids import TopicIds
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import CutwaterError
from cutwater.core.failover.forks import ForkTracker, StreamMilestone, undecided
from cutwater.core.generations.candidates import PARENT_DIGITS
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.job.job import Job
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.util.log_throttle import LogThrottle
from cutwater.mirror.topics.background import PeriodicQuery
from cutwater.mirror.topics.context import MirrorContext
from cutwater.operations.regions.forks import ForkReader

LOOK_S = 10.0
AGAIN_S = 3600.0
"""Between two log lines with the same text."""


class _Seen(NamedTuple):
    """The topic id and the end up to which a topic was read: a recreated topic is read from its start."""

    topic_id: str
    end: int


_NOTHING = _Seen("", 0)


class ForkWatch:
    """The forks of one job with one origin, as far as its milestones are copied."""

    def __init__(self, context: MirrorContext, job: Job) -> None:
        self._context, own = context, context.own
        self._forking, self._identities, self._ends = ForkReader(own, job), TopicIds(own), Offsets(own)
        self._claims = topics.candidates(job.name)
        self._stream = mirror_records.milestones_from(job.name, context.region)
        self._query: PeriodicQuery[int] = PeriodicQuery("forks", LOOK_S, context.clock_s, at_once=True)
        self._rarely = LogThrottle(AGAIN_S)
        self._claims_seen = self._stream_seen = _NOTHING
        self._parents: dict[bytes, Generation] = {}
        self._growing = ForkTracker((), self._from_elsewhere)
        self._known: dict[Generation, bool] = {}

    def check(self) -> None:
        """Report the result of the last check; start the next one if due. Does not block."""
        if self._query.due:
            self._query.begin(self._milestones)
        if not self._query.answered:
            return
        try:
            found = self._query.take()
        except CutwaterError as error:
            self._context.metrics.contradicted(None)
            self._log_change("fork status unknown", reason=str(error))
            return
        self._context.metrics.contradicted(found)
        if found:
            claims = ", ".join(map(str, self._parents.values()))
            self._log_change(
                "fork",
                milestones=found,
                reason=f"{self._context.region} has continued after the parent milestone of {claims} of this "
                "region. 'cutwater forks list' shows both lines, 'cutwater forks decide' chooses one",
            )

    def _log_change(self, what: str, **told: Any) -> None:
        if self._rarely.admit(what, self._context.clock_s()) is not None:
            self._context.log.warning(what, **told)

    # From here on: in a thread, one at a time.

    def _milestones(self) -> int:
        ids = {name: one.topic_id for name, one in self._identities.read([self._claims, self._stream]).items()}
        if len(ids) < 2:
            return 0  # nothing is claimed here, or nothing is copied
        ends = self._ends.committed_ends([TopicPartition(self._claims, 0), TopicPartition(self._stream, 0)])
        self._read_claims(_Seen(ids[self._claims], ends[TopicPartition(self._claims, 0)]))
        if self._parents:
            self._read_stream(_Seen(ids[self._stream], ends[TopicPartition(self._stream, 0)]))
        return self._growing.milestones

    def _read_claims(self, now: _Seen) -> None:
        if now == self._claims_seen:
            return
        parents = undecided(self._forking.continuing_claims(), self._context.region)
        if parents != self._parents:
            self._begin(parents)
        self._claims_seen = now

    def _begin(self, parents: dict[bytes, Generation]) -> None:
        self._parents, self._growing = parents, ForkTracker(parents, self._from_elsewhere)
        self._stream_seen = _NOTHING
        self._known.clear()

    def _read_stream(self, now: _Seen) -> None:
        if now.topic_id != self._stream_seen.topic_id:
            self._begin(self._parents)
        first, self._stream_seen = self._stream_seen.end, _NOTHING  # if interrupted, count from the start again
        for value in commit_stream.values(self._context.own, self._stream, first, now.end):
            record = protocol_records.decode(value)
            if isinstance(record, Milestone):
                self._growing.take(StreamMilestone(record, link(value)))
        self._stream_seen = now

    def _from_elsewhere(self, generation: Generation) -> bool:
        """Rarely called: it reads the whole stream."""
        if generation not in self._known:
            hashes = (
                link(value).hex() for _, value in commit_stream.milestones_in(self._context.own, self._stream)
            )
            own = not is_claimed(generation) or any(one[:PARENT_DIGITS] == generation.parent for one in hashes)
            self._known[generation] = not own
        return self._known[generation]
