"""Begin the copy of a topic anew: what repairs every gap that the origin's log still lets be repaired.

What it does not let, a snapshot may: `cutwater.mirror.resync.from_snapshot` begins the same way.

Where the origin is known, it must answer and have the topic before anything is touched: else the copy here may be
the only one, and the arrivals what a failover goes on from.

The order makes it safe to die anywhere. First a renewal is written among the positions: as long as it stands
there, a mirror that is started leaves again; the running one is fenced behind it. Then the topic's positions go,
all at once and by the id that claims are written with: who claims a generation here has done so before, and this
is refused or ended, or does it later, and finds no positions. Then the arrivals go, since their cuts are of the
copy that is given up; then the copy. Last goes the renewal. Whoever broke this off runs it again, or,
where the positions still stand, takes the renewal back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import cluster_id, delete_topics, described
from cutwater.adapters.kafka.client import Batch, TransactionalWriter, wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.copy_writer import CopyingWriter
from cutwater.adapters.kafka.record_deletion import empty
from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.candidates import candidates, parent_of, promoted
from cutwater.adapters.topics.commit_stream import release
from cutwater.core.errors import FencedError, UnavailableError, UsageError
from cutwater.core.mirror.resync_guard import require_unread
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.mirror_records import Arrival, Mirrored, Renewal, Steering
from cutwater.core.state.resync_snapshot_set import generation_of
from cutwater.mirror.topics.origin import PATIENCE_S

_ALL_THE_SAME = "If it is gone for good, and what is here may go, too: --delete-only-copy"


class Standing(NamedTuple):
    """What is here of the copy of one topic."""

    topic: str
    """Its name in the origin."""
    target: str
    """Its name here."""
    known: list[Mirrored]
    """The positions of its partitions."""
    exists: bool
    begun: bool
    """Has somebody begun to give it up?"""


def standing(cluster: Cluster, job: str, region: str, topic: str) -> Standing:
    """Raises UsageError for a changelog of another region: it has its own name here, and is no copy.

    And where the region is this one: then it is the original. And for a copy that a generation here stands on.
    """
    generation_of(job, topic, region)
    _require_other(cluster, job, region)
    target = mirror_records.target(job, topic, region)
    _require_unread(cluster, job, region, target)
    found = mirror_topics.positions(cluster, job)
    exists = bool(described(cluster, [target]))
    return Standing(topic, target, _of(found, region, topic), exists, begun=topic in found.renewed(region))


def _require_other(cluster: Cluster, job: str, region: str) -> None:
    """By the own commit stream, which names generations of its own region alone: a setting may be forgotten."""
    last = promoted(cluster, job) if described(cluster, [topics.milestones(job)]) else None
    if last is not None and last.generation.region == region:
        raise UsageError(
            f"{job} is at work at {cluster.bootstrap} as region {region}: what is named so is no copy. Give the "
            "region that is copied. Nothing was deleted"
        )


def _require_unread(cluster: Cluster, job: str, region: str, target: str) -> None:
    if len(described(cluster, [topics.milestones(job), topics.candidates(job)])) < 2:
        return  # nothing of the job has begun here
    last, ended = promoted(cluster, job), release(cluster, topics.milestones(job)) is not None
    coming = candidates(cluster, job).coming(last)
    require_unread(target, region, None if ended else last, coming, parent_of)


def require_any(copy: Standing, region: str) -> None:
    """Raises UsageError where nothing of a topic is here."""
    if not (copy.known or copy.exists or copy.begun):
        raise UsageError(
            f"nothing of {copy.topic} is copied from {region}; 'cutwater mirror status' lists what is"
        )


def last_arrival(cluster: Cluster, job: str, region: str) -> Arrival | None:
    """The newest one: all of them go with the copy of any topic."""
    there = described(cluster, [mirror_records.arrivals(job, region)])
    return mirror_topics.last_arrival(cluster, job, region) if there else None


def require_apart(cluster: Cluster, origin: Cluster, topic: str) -> None:
    """Raise UsageError where both are one cluster: what is there under its name is then no copy."""
    if cluster_id(cluster) == cluster_id(origin):
        raise UsageError(
            f"{origin.bootstrap} and {cluster.bootstrap} are the same cluster, so {topic} is no copy. Nothing was "
            "deleted"
        )


def require_kept_there(cluster: Cluster, origin: Cluster, region: str, topic: str) -> None:
    """Raise where what is copied of a topic may be all there is of it.

    UnavailableError where the origin's brokers do not answer: a failover would go on from what is here. UsageError
    where they have no such topic, or are those of this region.
    """
    try:
        wait_for_broker(origin, PATIENCE_S)
        kept = described(origin, [topic])
    except UnavailableError as error:
        raise UnavailableError(
            f"{region} does not answer, so what is copied of it may be all that is left: {error}. Nothing was "
            "deleted: run this again once it answers; where it is dead, 'cutwater failover' goes on from what is "
            f"here. {_ALL_THE_SAME}"
        ) from None
    require_apart(cluster, origin, topic)
    if not kept:
        raise UsageError(
            f"{region} answers, and has no topic {topic}, so what is copied of it may be all that is left. "
            f"Nothing was deleted: make it there first. {_ALL_THE_SAME}"
        )


def resync(
    cluster: Cluster,
    job: str,
    region: str,
    topic: str,
    now_ms: Callable[[], int],
    say: Callable[[str], Any] = lambda _: None,
    origin: Cluster | None = None,
) -> None:
    """Give up the copy of a topic (by its name in the origin); a mirror that is started then copies it anew.

    A mirror that runs is fenced and leaves. `origin`: its cluster, which must have the topic; None: nobody is
    asked. Raises UsageError where nothing of it is here; else as `require_kept_there` and `given_up`.
    """
    copy = standing(cluster, job, region, topic)
    require_any(copy, region)
    if origin is not None:
        require_kept_there(cluster, origin, region, topic)
    with given_up(cluster, job, region, copy, now_ms, say):
        pass


@contextmanager
def given_up(
    cluster: Cluster, job: str, region: str, copy: Standing, now_ms: Callable[[], int], say: Callable[[str], Any]
) -> Iterator[CopyingWriter]:
    """Fence the mirror, and remove positions, arrivals and the copy, as far as they are there.

    No mirror works before what is done with it has ended well; the writer is of whoever does it. Raises UsageError
    where a generation stands on the copy, FencedError where one is claimed meanwhile, or somebody else begins a
    copy anew.
    """
    try:
        renewing, claiming = _alone(cluster, job, region)
        # Once nobody else claims: a claim that came before is found, and one that comes now ends this.
        _require_unread(cluster, job, region, copy.target)
        renewal = Renewal(job, region, copy.topic, now_ms())
        noted = {"key": renewal.key, "value": protocol_records.encode(renewal)}

        def note() -> None:
            """That it is begun, and still by this process: nothing else shuts it out of what deletes."""
            _place(renewing, job, [noted])

        note()
        _fence(cluster, job, region)
        say("fenced the mirror")
        known = _of(mirror_topics.positions(cluster, job), region, copy.topic)
        # With the note: that no generation was claimed meanwhile is asked also where there is no position.
        _place(claiming, job, [noted, *({"key": one.key} for one in known)])
        say(f"removed {len(known)} positions")
        note()
        empty(cluster, mirror_records.arrivals(job, region))
        say("removed the arrivals, whose cuts were of this copy among others")
        note()
        if delete_topics(cluster, [copy.target]):
            say(f"deleted {copy.target}")
        yield renewing
        _place(renewing, job, [{"key": renewal.key}])
    except FencedError as error:
        raise FencedError(
            f"{error}: somebody claims, promotes or prunes at {cluster.bootstrap}, or begins a copy anew, too. As "
            f"long as 'cutwater mirror status' says that {copy.topic} is begun anew, no mirror of {region} works: "
            "'cutwater mirror resync --withdraw' takes that back as long as nothing has gone; else, and only "
            f"while {region} lives, run this again"
        ) from None


def withdraw(cluster: Cluster, job: str, region: str, topic: str) -> None:
    """Take back that a copy is begun anew, where whoever began it has removed nothing: the mirror may go on.

    One that is still at work ends with a FencedError. Raises UsageError where nobody has begun it, or the topic
    has no positions: they are the first to go, and all at once.
    """
    if topic not in mirror_topics.positions(cluster, job).renewed(region):
        raise UsageError(
            f"nobody has begun the copy of {topic} from {region} anew; 'cutwater mirror status' tells where "
            "somebody has"
        )
    renewing, _ = _alone(cluster, job, region)
    if not _of(mirror_topics.positions(cluster, job), region, topic):
        raise UsageError(
            f"the positions of {topic} have gone, and its copy may have, too: while {region} lives, run 'cutwater "
            "mirror resync' again. Nothing was changed"
        )
    _place(renewing, job, [{"key": Renewal(job, region, topic, 0).key}])


def _alone(cluster: Cluster, job: str, region: str) -> tuple[CopyingWriter, TransactionalWriter]:
    """Who notes a copy as begun anew, and who removes its positions: those that began before are fenced."""
    both = (
        CopyingWriter(cluster, mirror_records.renewal_id(job, region)),
        TransactionalWriter(cluster, topics.claims_id(job)),
    )
    for one in both:
        one.initialise()
    return both


def _of(found: mirror_topics.Positions, region: str, topic: str) -> list[Mirrored]:
    """The positions of one topic."""
    return [one for place, one in found.copies.get(region, {}).items() if place.topic == topic]


def _fence(cluster: Cluster, job: str, region: str) -> None:
    for one in mirror_records.transactional_ids(job, region):
        TransactionalWriter(cluster, one).initialise()


def steer(cluster: Cluster, job: str, region: str, paused: bool, now_ms: int) -> None:
    """Let every process of a mirror pause, or go on."""
    writer = TransactionalWriter(cluster, mirror_records.operator_id(job, region))
    writer.initialise()
    one = Steering(job, region, paused, now_ms)
    _place(writer, job, [{"key": one.key, "value": protocol_records.encode(one)}])


def _place(writer: TransactionalWriter, job: str, records: list[dict[str, bytes]]) -> None:
    """Among the positions. One without a value takes away what has its key."""
    writer.write_all([Batch(mirror_records.positions(job), 0, records)])
