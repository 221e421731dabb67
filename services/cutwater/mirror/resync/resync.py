"""The resync of a topic: it repairs every gap that the origin's log still allows to repair.

For other gaps, `cutwater.mirror.resync.from_snapshot` starts the same way.

If the origin is known, it must answer and have the topic before anything is deleted: otherwise the copy here may
be the only one, and a failover needs its arrivals.

A crash is safe at any point. First a renewal is written among the positions: while it exists, a mirror that starts
exits again, and the running one is fenced. Then all positions of the topic are removed in one transaction of the
claims' transactional id. An earlier claim refuses or fences this; a later one finds no positions. Then the
arrivals are deleted, because their cuts refer to the copy, then the copy, and last the renewal. After an
interruption, run it again or, if the positions still exist, withdraw the renewal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import cluster_id, delete_topics, descriptions
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.record_deletion import empty
from cutwater.adapters.kafka.writers.copy_writer import CopyingWriter
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter
from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.candidates import candidates, parent_of, promoted
from cutwater.adapters.topics.commit_stream import release
from cutwater.core.errors import FencedError, UnavailableError, UsageError
from cutwater.core.mirror.resync_guard import require_unread
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.mirror_records import Arrival, Mirrored, Renewal
from cutwater.core.state.resync_snapshot_set import generation_of
from cutwater.mirror.topics.origin import PATIENCE_S

_ALL_THE_SAME = "If it is gone for good and the copy here may be deleted: --delete-only-copy"


class CopyState(NamedTuple):
    """The state of one topic's copy here."""

    topic: str
    """Its name in the origin."""
    target: str
    """Its name here."""
    known: list[Mirrored]
    """The positions of its partitions."""
    exists: bool
    resync_started: bool
    """Whether a resync of it has started."""


def read_copy_state(cluster: Cluster, job: str, region: str, topic: str) -> CopyState:
    """Return the state of a copy. Raises UsageError if the topic is no copy (a changelog of another region, or the
    region is this one), or a generation here needs it.
    """
    generation_of(job, topic, region)
    _require_other(cluster, job, region)
    target = mirror_records.target(job, topic, region)
    _require_unread(cluster, job, region, target)
    found = mirror_topics.positions(cluster, job)
    exists = bool(descriptions(cluster, [target]))
    return CopyState(
        topic, target, _of(found, region, topic), exists, resync_started=topic in found.renewed(region)
    )


def _require_other(cluster: Cluster, job: str, region: str) -> None:
    """Raise if the own commit stream, which has only its region's generations, names this region."""
    last = promoted(cluster, job) if descriptions(cluster, [topics.milestones(job)]) else None
    if last is not None and last.generation.region == region:
        raise UsageError(
            f"{job} runs at {cluster.bootstrap} as region {region}, so its topics there are no copies. Name the "
            "region that is copied. Nothing was deleted"
        )


def _require_unread(cluster: Cluster, job: str, region: str, target: str) -> None:
    if len(descriptions(cluster, [topics.milestones(job), topics.candidates(job)])) < 2:
        return  # the job has not started here
    last, ended = promoted(cluster, job), release(cluster, topics.milestones(job)) is not None
    coming = candidates(cluster, job).coming(last)
    require_unread(target, region, None if ended else last, coming, parent_of)


def require_any(copy: CopyState, region: str) -> None:
    """Raise UsageError if nothing of a topic is here."""
    if not (copy.known or copy.exists or copy.resync_started):
        raise UsageError(
            f"nothing of {copy.topic} is copied from {region}; 'cutwater mirror status' lists the copied topics"
        )


def last_arrival(cluster: Cluster, job: str, region: str) -> Arrival | None:
    """Return the newest arrival; all arrivals are deleted with the copy of any topic."""
    there = descriptions(cluster, [mirror_records.arrivals(job, region)])
    return mirror_topics.last_arrival(cluster, job, region) if there else None


def require_apart(cluster: Cluster, origin: Cluster, topic: str) -> None:
    """Raise UsageError if both are one cluster, where the topic is the original."""
    if cluster_id(cluster) == cluster_id(origin):
        raise UsageError(
            f"{origin.bootstrap} and {cluster.bootstrap} are the same cluster, so {topic} is no copy. Nothing was "
            "deleted"
        )


def require_kept_there(cluster: Cluster, origin: Cluster, region: str, topic: str) -> None:
    """Raise if the copy of a topic may be all that is left of it.

    Raises UnavailableError if the origin's brokers do not answer: a failover would continue from the copy. Raises
    UsageError if they have no such topic, or are those of this region.
    """
    try:
        wait_for_broker(origin, PATIENCE_S)
        kept = descriptions(origin, [topic])
    except UnavailableError as error:
        raise UnavailableError(
            f"{region} does not answer, so the copy here may be all that is left: {error}. Nothing was deleted: "
            "run this again once it answers; if it is lost, 'cutwater failover' continues from the copy. "
            f"{_ALL_THE_SAME}"
        ) from None
    require_apart(cluster, origin, topic)
    if not kept:
        raise UsageError(
            f"{region} answers, and has no topic {topic}, so the copy here may be all that is left. Nothing was "
            f"deleted: create the topic there first. {_ALL_THE_SAME}"
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
    """Give up the copy of a topic (by its name in the origin); the next mirror to start copies it again.

    A running mirror is fenced and exits. `origin`: its cluster, which must have the topic; None skips this check.
    Raises UsageError if nothing of the topic is here; else as `require_kept_there` and `given_up`.
    """
    copy = read_copy_state(cluster, job, region, topic)
    require_any(copy, region)
    if origin is not None:
        require_kept_there(cluster, origin, region, topic)
    with give_up_copy(cluster, job, region, copy, now_ms, say):
        pass


@contextmanager
def give_up_copy(
    cluster: Cluster, job: str, region: str, copy: CopyState, now_ms: Callable[[], int], say: Callable[[str], Any]
) -> Iterator[CopyingWriter]:
    """Fence the mirror, and remove positions, arrivals and the copy, as far as they exist.

    No mirror works before the `with` block has ended without an error; the block owns the writer. Raises
    UsageError if a generation needs the copy, FencedError if one is claimed meanwhile, or another resync starts.
    """
    try:
        renewing, claiming = _alone(cluster, job, region)
        # Earlier claims are visible once older claimers are fenced; a later claim fences this.
        _require_unread(cluster, job, region, copy.target)
        renewal = Renewal(job, region, copy.topic, now_ms())
        noted = {"key": renewal.key, "value": protocol_records.encode(renewal)}

        def note() -> None:
            """Write the renewal again: it fails if another process has fenced this one."""
            _place(renewing, job, [noted])

        note()
        _fence(cluster, job, region)
        say("fenced the mirror")
        known = _of(mirror_topics.positions(cluster, job), region, copy.topic)
        # With the renewal: it fails if a generation was claimed meanwhile, also without positions.
        _place(claiming, job, [noted, *({"key": one.key} for one in known)])
        say(f"removed {len(known)} positions")
        note()
        empty(cluster, mirror_records.arrivals(job, region))
        say("removed the arrivals, whose cuts refer to this copy")
        note()
        if delete_topics(cluster, [copy.target]):
            say(f"deleted {copy.target}")
        yield renewing
        _place(renewing, job, [{"key": renewal.key}])
    except FencedError as error:
        raise FencedError(
            f"{error}: another process claims, promotes or prunes at {cluster.bootstrap}, or resyncs a copy. "
            f"While 'cutwater mirror status' reports a resync of {copy.topic}, no mirror of {region} works. Run "
            "'cutwater mirror resync --withdraw' (possible until its positions are removed), or run this again "
            f"(only while {region} is up)"
        ) from None


def withdraw(cluster: Cluster, job: str, region: str, topic: str) -> None:
    """Withdraw a resync that has removed nothing, so that the mirror may run again.

    A resync that is still running ends with a FencedError. Raises UsageError without a resync, or if the topic has
    no positions: those are removed first, and all at once.
    """
    if topic not in mirror_topics.positions(cluster, job).renewed(region):
        raise UsageError(
            f"no resync of {topic} from {region} is in progress; 'cutwater mirror status' lists the resyncs in "
            "progress"
        )
    renewing, _ = _alone(cluster, job, region)
    if not _of(mirror_topics.positions(cluster, job), region, topic):
        raise UsageError(
            f"the positions of {topic} are removed, and its copy may be, too. Nothing was changed. Run 'cutwater "
            f"mirror resync' again while {region} is up"
        )
    _place(renewing, job, [{"key": Renewal(job, region, topic, 0).key}])


def _alone(cluster: Cluster, job: str, region: str) -> tuple[CopyingWriter, TransactionalWriter]:
    """Return the writers of the renewal and of the claims' id; older users of both are fenced."""
    both = (
        CopyingWriter(cluster, mirror_records.renewal_id(job, region)),
        TransactionalWriter(cluster, topics.claims_id(job)),
    )
    for one in both:
        one.initialise()
    return both


def _of(found: mirror_topics.Positions, region: str, topic: str) -> list[Mirrored]:
    return [one for place, one in found.copies.get(region, {}).items() if place.topic == topic]


def _fence(cluster: Cluster, job: str, region: str) -> None:
    for one in mirror_records.transactional_ids(job, region):
        TransactionalWriter(cluster, one).initialise()


def _place(writer: TransactionalWriter, job: str, records: list[dict[str, bytes]]) -> None:
    """Write among the positions; a record without a value removes its key."""
    writer.write_all([Batch(mirror_records.positions(job), 0, records)])
