"""The part of the commit stream that belongs to one generation, for the publisher."""

from __future__ import annotations

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import ProtocolError
from cutwater.core.job.job import Job
from cutwater.core.output.position import Published, applied
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Heartbeat, Milestone
from cutwater.core.state.backlog import Backlog, Entry
from cutwater.core.state.reader_names import PUBLISHER
from cutwater.views.follow.milestone_feed import MilestoneFeed


class UnpublishedMilestones:
    """The unpublished milestones of the position's generation, and whether a later generation has followed."""

    def __init__(self, cluster: Cluster, job: Job, position: Published) -> None:
        self._generation = position.generation
        known = applied(position, milestone_of(position))
        self.backlog = Backlog(position.generation, known, position.target, reader=PUBLISHER)
        self._feed = MilestoneFeed(cluster, topics.milestones(job.name), self.backlog.position, PUBLISHER)
        self.succeeded = False
        """True if the stream has a milestone of a later generation. Then this one gets no more milestones."""
        self.ended = False
        """True if a later generation has followed and everything publishable of this one is published."""

    def close(self) -> None:
        self._feed.close()

    def read(self, timeout_s: float) -> None:
        """Read new records of the stream. Raises as `Backlog.add` and `MilestoneFeed.poll` do."""
        for record in self._feed.poll(timeout_s):
            if isinstance(record, Heartbeat):
                continue
            if self._follows(record):
                self.succeeded = True
                break
            self.backlog.add(record)
        # If the stream was pruned up to the next generation, it has no record of this one.
        if len(self.backlog) if self.succeeded else self._feed.at_end:
            self.backlog.end_of_stream()

    def _follows(self, entry: Entry) -> bool:
        return entry.milestone.generation.number > self._generation.number


def milestone_of(position: Published) -> Milestone | None:
    """Return the newest milestone published completely, or None. Raise ProtocolError for another record."""
    if not position.milestone:
        return None
    milestone = protocol_records.decode(position.milestone)
    if not isinstance(milestone, Milestone):
        raise ProtocolError("the publisher's position contains no milestone")
    return milestone
