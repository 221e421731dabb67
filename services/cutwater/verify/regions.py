"""The comparison of a generation's changelog in its region with the copy here, at a milestone that has arrived.

Each side is read once, up to its own cut, at a limited rate, and its newest rows are stored on disk. Then digests
are compared shard by shard, and rows only of the shards that differ. The origin is the reference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cutwater.adapters.kafka.admin import cluster_id
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import arrivals, commit_stream
from cutwater.adapters.topics.arrivals import Arrived
from cutwater.core.checks.state_comparison import (
    NOTHING,
    RowComparison,
    RowDifference,
    RowTotals,
    Scope,
    differing_shards,
    side_by_side,
    sum_by_shard,
    total,
)
from cutwater.core.errors import DivergenceError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import fresh
from cutwater.verify.places import shown_by, take_rows
from cutwater.verify.read_rate import ReadRateLimit
from cutwater.verify.scratch import Report, Scratch, ScratchTable, held_hash
from cutwater.views.changelog.proof import Overtaken, require_whole
from cutwater.views.changelog.range_reader import Ranges


class Side(NamedTuple):
    region: str
    cluster: Cluster


@dataclass(frozen=True)
class Request:
    job: Job
    origin: Side
    own: Side
    at: Token | None = None
    """The milestone; None for the newest that has arrived."""
    limit: int = 20
    """Number of differing rows to show."""
    rows_max: int = 5_000_000
    """Limit of rows per side."""


class Shard(NamedTuple):
    """A shard that differs, with the sum of each side, the origin first."""

    number: int
    held: tuple[RowTotals, RowTotals]


@dataclass(frozen=True)
class ComparisonResult:
    milestone: Milestone
    held: tuple[RowTotals, RowTotals]
    """The total of the origin, then of this region."""
    shards: list[Shard]
    """The shards that differ, in order."""
    differences: list[RowDifference]
    """The first differing rows; their places are the regions."""
    differing_rows: int
    size: int
    """Bytes of keys and values read from both sides."""

    @property
    def equal(self) -> bool:
        return not self.shards


def newest_common(request: Request) -> Arrived:
    """Return the milestone to compare, which both sides must hold. Raises as `adapters.topics.arrivals.find`.

    Also raises UsageError if both sides are one cluster, UnavailableError if the origin's commit stream does not
    hold the milestone, DivergenceError if it holds another one with the same token.
    """
    job, (region, cluster), own = request.job.name, request.origin, request.own.cluster
    if cluster_id(cluster) == cluster_id(own):
        raise UsageError(
            f"{cluster.bootstrap} and {own.bootstrap} are the same cluster: set "
            "CUTWATER_ORIGIN_BOOTSTRAP_SERVERS to the brokers of the other region"
        )
    found = arrivals.find(own, job, region, request.at)
    token = found.arrival.token
    theirs = commit_stream.newest(
        cluster,
        topics.milestones(job),
        lambda one: one if isinstance(one, Milestone) and one.token == token else None,
    )
    if theirs is None:
        raise UnavailableError(
            f"{token} has arrived here, but the commit stream of {region} does not hold it. The stream may have "
            "been pruned or replaced: name another milestone with --at"
        )
    if theirs != found.milestone:
        raise DivergenceError(
            f"{token} is not the same milestone in {region} and in the copy of its stream here: the stream was "
            f"replaced there. 'cutwater mirror resync --topic {topics.milestones(job)}' starts the copy again"
        )
    return found


def compare(
    request: Request, found: Arrived, pace: ReadRateLimit, report: Report = lambda _place, _rows: None
) -> ComparisonResult:
    """Compare both sides at `found`.

    Raises UnavailableError if brokers do not answer or compaction has overtaken the milestone on one side;
    UsageError for more rows than the limit; DivergenceError for records that are not rows; `Stopped`.
    """
    milestone = found.milestone
    sides = (request.origin, request.own)
    with (
        tempfile.TemporaryDirectory(prefix="cutwater-verify-") as folder,
        Scratch(
            Path(folder), request.job.shards, request.rows_max, report, [side.region for side in sides]
        ) as scratch,
    ):
        for side, at in zip(sides, (milestone, found.here), strict=True):
            _fill(request.job, side, at, scratch[side.region], pace)
        tables = [scratch[side.region] for side in sides]
        theirs, mine = (sum_by_shard(table.rows(), held_hash) for table in tables)
        shards = sorted(differing_shards(theirs, mine))
        differences, rows = _rows(request, milestone, tables, frozenset(shards))
    return ComparisonResult(
        milestone=milestone,
        held=(total(theirs), total(mine)),
        shards=[Shard(one, (theirs.get(one, NOTHING), mine.get(one, NOTHING))) for one in shards],
        differences=differences,
        differing_rows=rows,
        size=pace.size,
    )


def _fill(job: Job, side: Side, milestone: Milestone, table: ScratchTable, pace: ReadRateLimit) -> None:
    """Read one side into `table`. `milestone`: with the cuts of this side."""
    topic = topics.changelog(job.name, milestone.generation)
    ranges = Ranges(side.cluster, topic, pace.stopping)
    try:
        range_ = ranges.between(Cut(), milestone, look_above=not fresh(milestone, now_ms()))
        take_rows(job, pace.records(range_), milestone.horizon_ms, table)
        require_whole(milestone, range_.first_above_ms, now_ms())
    except Overtaken:
        raise UnavailableError(
            f"compaction may have removed values of {milestone.token} from {topic} in {side.region}, so the copy "
            "cannot be compared. Compare a newer milestone, or read faster (--bytes-per-s)"
        ) from None
    finally:
        ranges.close()


def _rows(
    request: Request, milestone: Milestone, tables: Sequence[ScratchTable], shards: frozenset[int]
) -> tuple[list[RowDifference], int]:
    scope = Scope(milestone.horizon_ms)
    judge = RowComparison({table.place: scope for table in tables}, shown_by(request.job), shown_places=())
    first: list[RowDifference] = []
    count = 0
    for found in side_by_side({table.place: table.rows(shards) for table in tables}):
        difference = judge.difference(*found)
        if difference is not None:
            count += 1
            if len(first) < request.limit:
                first.append(difference)
    return first, count
