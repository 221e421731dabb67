"""The commit stream as far as one generation goes, for the publisher."""

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
from cutwater.views.follow.commit_feed import MilestoneFeed


class Following:
    """What of the position's generation is not published yet, and whether another one has followed."""

    def __init__(self, cluster: Cluster, job: Job, position: Published) -> None:
        self._generation = position.generation
        known = applied(position, milestone_of(position))
        self.backlog = Backlog(position.generation, known, position.target, reader=PUBLISHER)
        self._feed = MilestoneFeed(cluster, topics.milestones(job.name), self.backlog.position, PUBLISHER)
        self.succeeded = False
        """Does a milestone of a later generation stand on the stream? Nothing of ours comes behind it."""
        self.ended = False
        """Is everything published that can be, of a generation that was succeeded?"""

    def close(self) -> None:
        self._feed.close()

    def read(self, timeout_s: float) -> None:
        """Take what is new on the stream. Raises as `Backlog.add` and `MilestoneFeed.poll` do."""
        for record in self._feed.poll(timeout_s):
            if isinstance(record, Heartbeat):
                continue
            if self._follows(record):
                self.succeeded = True
                break
            self.backlog.add(record)
        # Where the stream was pruned up to the next generation, nothing of this one was read.
        if len(self.backlog) if self.succeeded else self._feed.at_end:
            self.backlog.end_of_stream()

    def _follows(self, entry: Entry) -> bool:
        return entry.milestone.generation.number > self._generation.number


def milestone_of(position: Published) -> Milestone | None:
    """The newest milestone that is published whole; None for none. Raises ProtocolError where it holds another."""
    if not position.milestone:
        return None
    milestone = protocol_records.decode(position.milestone)
    if not isinstance(milestone, Milestone):
        raise ProtocolError("the publisher's position holds no milestone")
    return milestone
