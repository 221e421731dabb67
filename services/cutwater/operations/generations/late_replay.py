"""Which late events a new generation can count, and the milestone from which it must start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import promoted
from cutwater.adapters.topics.commit_stream import milestones_in, newest
from cutwater.adapters.topics.rejected_events import late_pairs
from cutwater.core.driver.rejected_events import LatePair
from cutwater.core.errors import UsageError
from cutwater.core.generations.late_replay import (
    LateEvent,
    Opening,
    countable,
    counted,
    opening,
    require_before,
)
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Milestone


class LateFilter(NamedTuple):
    """The late events that are asked for; None: all."""

    key: str | None
    epoch: int | None
    since: str | None
    """Token of a milestone: only events that were listed after it."""


@dataclass(frozen=True)
class LateReplayPlan:
    parent: Milestone
    opened: Opening
    selected: int
    """The late events that were asked for."""
    counted: int
    """The late events that will count: with those that nobody asked for."""
    left_out: list[str]
    """Why others stay late."""
    problems: list[str]
    """Of the list, if it is not complete."""

    def as_object(self) -> dict[str, Any]:
        return {
            "floor_ms": self.opened.floor_ms,
            "selected": self.selected,
            "counted": self.counted,
            "left_out": self.left_out,
            "problems": self.problems,
        }


def plan_late_replay(cluster: Cluster, job: Job, wanted: LateFilter, token: str | None) -> LateReplayPlan:
    """Return how late events can count. `token`: the parent milestone; None for the newest that is early enough.

    Raises UsageError if none of the events can, if the job has no list, or if its windows close without a floor.
    """
    _require_floor(job)
    found = late_pairs(cluster, job.name)
    listed = [_event(one) for one in found.entries]
    is_asked = _asked(cluster, job.name, wanted)
    selected = [event for one, event in zip(found.entries, listed, strict=True) if is_asked(one)]
    last = promoted(cluster, job.name)  # after the list: its cut has the listed events
    if not selected or last is None:
        why = "; ".join(("'cutwater late list' shows what is", *found.elsewhere))
        raise UsageError(f"no such event of {job.name} is on the list: {why}")
    first = _oldest(cluster, job.name, last.generation) or last
    can = countable(selected, last, first)
    left_out = [*can.left_out(first), *found.elsewhere]
    if not can.events:
        raise UsageError(f"none of the {len(selected):,} late events can count: {'; '.join(left_out)}")
    parent = _milestone(cluster, job.name, token) if token else _newest_before(cluster, job.name, can.events)
    require_before(parent, can.events)
    opened = opening(parent, last, can.events)
    return LateReplayPlan(
        parent, opened, len(selected), counted(listed, parent, opened), left_out, [*found.problems]
    )


def _require_floor(job: Job) -> None:
    if job.attached:
        raise UsageError(
            f"job {job.name} is attached to a query of your own, which keeps no list of events (docs/ATTACH.md)"
        )
    if job.amend_for_ms is None:
        raise UsageError(
            "the job file has no late.amend_for, so Spark itself closes the windows of a generation: set it (1s "
            "is enough), at least until the new generation is promoted"
        )


def _event(one: LatePair) -> LateEvent:
    place = TopicPartition(one.event.topic, one.event.partition)
    return LateEvent(one.by.generation, one.by.epoch, place, one.event.offset, one.window_end_ms)


def _asked(cluster: Cluster, job: str, wanted: LateFilter) -> Callable[[LatePair], bool]:
    since = _milestone(cluster, job, wanted.since) if wanted.since else None

    def asked(one: LatePair) -> bool:
        if since is not None and (one.by.generation.number, one.by.epoch) <= (
            since.generation.number,
            since.epoch,
        ):
            return False
        return wanted.key in (None, one.key) and wanted.epoch in (None, one.by.epoch)

    return asked


def _oldest(cluster: Cluster, job: str, generation: Generation) -> Milestone | None:
    stream = milestones_in(cluster, topics.milestones(job))
    return next((one for one, _ in stream if one.generation == generation), None)


def _newest_before(cluster: Cluster, job: str, events: list[LateEvent]) -> Milestone:
    """Return the newest milestone before an epoch; it exists, since an older one of the generation is kept."""
    oldest = min(events, key=lambda one: one.epoch)
    return _found(
        cluster,
        job,
        f"before epoch {oldest.epoch} of {oldest.by}",
        lambda one: one.generation == oldest.by and one.epoch < oldest.epoch,
    )


def _milestone(cluster: Cluster, job: str, text: str) -> Milestone:
    token = Token.parse(text)
    return _found(cluster, job, text, lambda one: one.token == token)


def _found(cluster: Cluster, job: str, what: str, is_it: Callable[[Milestone], bool]) -> Milestone:
    topic = topics.milestones(job)
    found = newest(cluster, topic, lambda one: one if isinstance(one, Milestone) and is_it(one) else None)
    if found is None:
        raise UsageError(f"{job} has no milestone {what}; 'cutwater milestones' lists them")
    return found
