"""The commit stream as far as one row needs it: small values for many milestones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import milestones_in
from cutwater.core.job.job import Job
from cutwater.core.past.row_history import VisibleSpan
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Milestone
from cutwater.past.row_logs import RowOfKey

MILESTONES_MAX = 200_000
"""The newest ones: two days of a job with a milestone each second."""


class VisibleMilestone(NamedTuple):
    sequence: int
    generation: Generation
    attempt: int
    epoch: int
    committed_ms: int
    horizon_ms: int
    rewinds_to: int
    partitions: int
    """Partitions of the changelog."""
    end: int
    """The end of the row's partition in the changelog cut."""
    source: tuple[tuple[TopicPartition, int], ...]
    """The source cut."""

    @property
    def token(self) -> Token:
        return Token(self.generation, self.sequence)

    @property
    def source_cut(self) -> Cut:
        return Cut(self.source)


def visible_milestones(cluster: Cluster, job: Job, row: RowOfKey) -> list[VisibleMilestone]:
    """Return the newest milestones of the commit stream, oldest first."""
    topic = topics.milestones(job.name)
    partition_count(cluster, topic)
    found: deque[VisibleMilestone] = deque(maxlen=MILESTONES_MAX)
    for one, _ in milestones_in(cluster, topic):
        found.append(_visible(one, job, row))
    return list(found)


def _visible(one: Milestone, job: Job, row: RowOfKey) -> VisibleMilestone:
    partitions = len(one.changelog_cut)
    place = TopicPartition(topics.changelog(job.name, one.generation), row.partition(job, partitions))
    return VisibleMilestone(
        *(one.sequence, one.generation, one.attempt, one.epoch, one.committed_ms, one.horizon_ms, one.rewinds_to),
        *(partitions, one.changelog_cut.offset(place), one.source_cut.entries),
    )


def by_span(found: Iterable[VisibleMilestone]) -> list[tuple[VisibleSpan, list[VisibleMilestone]]]:
    """Return the milestones by generation, in order."""
    spans = []
    for generation, group in groupby(found, key=lambda one: one.generation):
        held = list(group)
        spans.append((VisibleSpan(generation, held[0].sequence, held[-1].sequence, held[0].rewinds_to), held))
    return spans


def expired_at(found: Sequence[VisibleMilestone], job: Job, row: RowOfKey) -> int | None:
    """Return the first milestone whose horizon the row's window has passed; None if it is kept."""
    end_ms = row.window.end_ms
    passed = (one.sequence for one in found if end_ms <= job.shown_above_ms(one.horizon_ms))
    return next(passed, None)
