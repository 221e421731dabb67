"""The loss, known once the dead region is back: by the offsets of its log, and by the events themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from examples.two_regions import US
from examples.two_regions.failover import Takeover
from examples.two_regions.oracle import RegionEvents
from examples.two_regions.scenario import Scene

from cutwater.adapters.avro.protocol_records import millis
from cutwater.adapters.topics import commit_stream
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.mirror_records import from_origin
from cutwater.core.protocol.records import Milestone

_FIELDS = ("airport", "kind", "carrier", "flight", "other_airport", "distance_miles")


def report_loss(scene: Scene, seen: Milestone, gone: Takeover, stood: RegionEvents) -> None:
    """Compare the exact loss with the oracle's. `seen`: the newest milestone of us before it died; `stood`: the
    events that us holds now."""
    telling = scene.report
    _acknowledged(scene, stood)
    end = commit_stream.source_end(scene.us.cluster, scene.job.topic)
    by_offsets = end.records_since(_copied(scene, gone))
    by_oracle = len(stood.events.keys() - gone.copied)
    newest = scene.until(lambda: scene.newest(scene.us), "the newest milestone of us")
    milestones = newest.sequence - gone.behind.sequence
    telling.fact("lost_events", by_offsets)
    telling.fact("lost_milestones", milestones)
    telling.print_line(
        f"exact loss: {by_offsets:,} events that were not in eu at the failover, and {milestones} milestones "
        f"of us after {gone.behind.token}, up to {newest.token}"
    )
    telling.check(
        "the exact loss equals the oracle's", by_offsets == by_oracle, f"{by_offsets:,} and {by_oracle:,}"
    )
    telling.check(
        "it is not below the loss reported at the failover",
        by_offsets >= gone.lost_events and milestones >= gone.lost_milestones,
        f"that was {gone.lost_events:,} events and {gone.lost_milestones} milestones",
    )
    telling.check(
        "us still has the newest milestone that was seen of it",
        newest.sequence >= seen.sequence,
        f"{newest.token}; {seen.token} was",
    )


def _acknowledged(scene: Scene, stood: RegionEvents) -> None:
    telling = scene.report
    taken = scene.events.iloc[sorted(scene.feeder.delivered[US])]
    missing = Counter(_identities(taken.to_dict("records"))) - Counter(_identities(stood.events.values()))
    twice = len(stood.events) - len(taken)
    telling.check(
        "us still has every flight that it had acknowledged",
        not missing,
        f"{len(taken):,}, {missing.total():,} missing",
    )
    telling.fact("sent_twice", twice)
    telling.print_line(
        f"{twice:,} more are there that it had not acknowledged: they were sent to eu again, and count twice"
    )


def _copied(scene: Scene, gone: Takeover) -> Cut:
    """Return how far the claim says that us's own source was copied, in us's offsets."""
    topic, copy = scene.job.topic, from_origin(scene.job.topic, US)
    found = {at.partition: offset for at, offset in gone.claim.origin_cut if at.topic == copy}
    return Cut.of({TopicPartition(topic, partition): offset for partition, offset in found.items()})


def _identities(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield each event's fields, with its time in ms, for events from any reader."""
    for one in events:
        at = one["scheduled_at"]
        yield (*(one[field] for field in _FIELDS), at if isinstance(at, int) else millis(at))
