"""A milestone of another region as it arrived here: its own bytes, and its cuts in this region's offsets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream, mirror_topics
from cutwater.adapters.topics.candidates import milestone_in
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.mirror_records import Arrival
from cutwater.core.protocol.records import Milestone


@dataclass(frozen=True)
class Arrived:
    arrival: Arrival
    milestone: Milestone
    """As the origin wrote it, with cuts of the origin's topics."""

    @property
    def here(self) -> Milestone:
        """The same milestone with cuts of the local topics."""
        arrival = self.arrival
        return replace(
            self.milestone,
            source_cut=arrival.source_cut,
            changelog_cut=arrival.changelog_cut,
            evidence=arrival.evidence,
        )


def find(cluster: Cluster, job: str, origin: str, token: Token | None = None) -> Arrived:
    """Return the newest milestone that has arrived, or the one of `token`.

    Raises UsageError if nothing of that region is copied here or that token has not arrived; UnavailableError if
    no milestone has arrived yet; DivergenceError if the copied stream does not hold the milestone of the arrival.
    """
    topic = mirror_records.arrivals(job, origin)
    if topic not in descriptions(cluster, [topic]):
        raise UsageError(
            f"nothing of region {origin} is copied to {cluster.bootstrap}: topic {topic} does not exist. Start a "
            "mirror here, or name the region that it copies"
        )
    arrival = _arrival(cluster, job, origin, token)
    return Arrived(arrival, milestone_in(mirror_topics.arrived_milestone(cluster, arrival)))


def _arrival(cluster: Cluster, job: str, origin: str, token: Token | None) -> Arrival:
    newest = mirror_topics.last_arrival(cluster, job, origin)
    if newest is None:
        raise UnavailableError(
            f"no milestone of {origin} has arrived here yet; 'cutwater regions' shows the progress of its mirror"
        )
    if token is None or newest.token == token:
        return newest
    topic = mirror_records.arrivals(job, origin)
    found = commit_stream.newest(
        cluster, topic, lambda one: one if isinstance(one, Arrival) and one.token == token else None
    )
    if found is None:
        raise UsageError(
            f"{token} has not arrived here, so there is nothing to compare it with; the newest arrival is "
            f"{newest.token}. (A milestone that compaction overtook has no arrival.)"
        )
    return found
