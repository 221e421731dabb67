"""Whose state a generation goes on with, and that state beside its checkpoint, made before the first query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

from pyspark.sql import SparkSession

from cutwater.adapters import replicas, wire
from cutwater.adapters.avro import crc64
from cutwater.adapters.beginning import require_may_begin
from cutwater.adapters.clientlog import QUIET
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.crashing import reach
from cutwater.adapters.ends import Ends
from cutwater.adapters.generations import candidates, parent_of, promoted, told_parent
from cutwater.adapters.kafka import make_consumer, read_range
from cutwater.adapters.settings import Settings
from cutwater.adapters.streams import release, values
from cutwater.core import topics
from cutwater.core.cuts import Cut, TopicPartition
from cutwater.core.errors import DivergenceError, ProtocolError
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.core.origins import (
    claimed,
    floor_behind,
    require_at_work,
    require_kept,
    require_mergeable,
    require_own_changelog,
    require_startable,
    require_unreleased,
)
from cutwater.core.records import Barrier, Claim, Milestone
from cutwater.core.seeds import may_be_overtaken, require_contained, require_state
from cutwater.core.sources import origin_cut_at
from cutwater_spark.checkpoint import Checkpoint, Seed
from cutwater_spark.seeding import write_seed
from cutwater_spark.sources import partitions_of

SIGNALS_MAX = 10_000
"""So many are looked at behind the parent milestone; its next barrier, where there is one, is among the first."""


def parent_milestone(job: Job, settings: Settings) -> Milestone | None:
    """The milestone that the generation starts from, with its cuts here; None for a job's first generation.

    Raises FencedError where nobody is to work for the generation any more, UsageError where the job's state cannot
    go on from its parent's, or where a first one may not begin here.
    """
    cluster, generation = settings.cluster, settings.generation
    candidate = candidates(cluster, job.name).by_id.get(generation) if claimed(generation) else None
    last = promoted(cluster, job.name)
    require_at_work(generation, last, candidate)
    if last is None:
        require_may_begin(cluster, job.name, generation, settings.beside)
    require_unreleased(generation, release(cluster, topics.milestones(job.name)))
    if not claimed(generation):
        return None
    if candidate is None:
        raise ProtocolError(f"the claim of {generation} is gone from the candidates topic, and with it its parent")
    require_mergeable(job)
    parent = parent_of(candidate.claim)
    require_own_changelog(job.name, parent)
    partitions = partitions_of(cluster, job, parent.source_cut)
    require_startable(job, crc64(job.state_schema).hex(), parent, partitions)
    return replace(parent, origin_cut=origin_cut_at(job.topic, candidate.claim, told_parent(candidate.claim)))


def seed_of(
    spark: SparkSession,
    cluster: Cluster,
    job: Job,
    generation: Generation,
    parent: Milestone,
    checkpoint: Checkpoint,
    attempt: int,
    now_ms: Callable[[], int],
) -> Seed:
    """The seed's files, and the floor; makes them where no earlier attempt has.

    A seed counts once the checkpoint names its folder, and each attempt writes into one of its own: what a killed
    one has left is never taken for whole. Called once older attempts are fenced.
    """
    if (kept := checkpoint.seed()) is not None:
        return kept
    if checkpoint.newest_planned() >= 0:
        raise DivergenceError(
            f"the checkpoint {checkpoint.location} has epochs and no seed: it is another generation's, or damaged"
        )
    require_kept(parent, kept_behind(cluster, parent.source_cut))
    checkpoint.drop_seeds()
    folder = checkpoint.seed_folder(attempt)
    read = write_seed(spark, cluster, job, parent, folder)
    if may_be_overtaken(parent, now_ms()):
        copied = {} if parent.generation.region == generation.region else copies_end(cluster, job.name)
        above = first_above_ms(cluster, parent.changelog_cut, copied)
        require_contained(parent, above.values(), now_ms())
    require_state(parent, read, spark.read.parquet(folder).count())
    claim = candidates(cluster, job.name).require(generation).claim
    seed = Seed(
        folder, floor_of(cluster, claim, parent)
    )  # asked last: the parent's next epoch may be about to end
    reach("seed-written")
    checkpoint.keep_seed(attempt, seed.floor_ms)
    reach("seed-kept")
    return seed


def floor_of(cluster: Cluster, claim: Claim, parent: Milestone) -> int:
    """The watermark that a generation begins with, by what stands on the barriers topic now."""
    with closing(values(cluster, topics.barriers(claim.job), parent.barriers_position)) as told:
        signals = map(wire.decode, islice(told, SIGNALS_MAX))
        return floor_behind(claim, parent, (one for one in signals if isinstance(one, Barrier)))


def kept_behind(cluster: Cluster, cut: Cut) -> dict[TopicPartition, tuple[int, int]]:
    """First offset and end of each partition that a cut names."""
    ends, named = Ends(cluster), dict[str, list[int]]()
    for place, _ in cut:
        named.setdefault(place.topic, []).append(place.partition)
    return {
        TopicPartition(topic, number): bounds
        for topic, numbers in named.items()
        for number, bounds in ends.kept(topic, numbers).items()
    }


def copies_end(cluster: Cluster, job: str) -> dict[TopicPartition, int]:
    """Of changelogs that are copied here: the offset that follows what the mirror has written so far."""
    if not replicas.has_mirror(cluster, job):
        return {}
    copied, changelogs = replicas.positions(cluster, job).every, topics.changelog_prefix(job)
    return {
        TopicPartition(one.topic, one.partition): one.local for one in copied if one.topic.startswith(changelogs)
    }


def first_above_ms(
    cluster: Cluster, cut: Cut, copied: Mapping[TopicPartition, int] = MappingProxyType({})
) -> dict[int, int | None]:
    """Per partition of a changelog the log time of the first record above the cut, None where nothing follows.

    `copied`: as `copies_end` says. Behind that a copy has markers of transactions, and what was aborted: there was
    never anything for the sake of which compaction could have taken a value.
    """
    ends, found = Ends(cluster), dict[int, int | None]()
    consumer = make_consumer(cluster, **{"isolation.level": "read_uncommitted", **QUIET})
    try:
        for place, offset in cut:
            found[place.partition] = None
            end = ends.of(place.topic, len(cut))[place.partition]
            if offset < min(end, copied.get(place, end)):
                first = next(read_range(consumer, place.topic, place.partition, offset, end), None)
                # What was there and is not any more, compaction has taken.
                found[place.partition] = first.timestamp()[1] if first else 0
    finally:
        consumer.close()
    return found
