"""Where a generation begins: with nothing, or from its parent milestone. And who may work for it at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cutwater.core.driver.ports import Plan, Range
from cutwater.core.errors import FencedError, UsageError
from cutwater.core.generations.candidates import Candidate
from cutwater.core.generations.source_topics import copied_region
from cutwater.core.job.job import Job, differences
from cutwater.core.job.measures import VALUE, unmergeable
from cutwater.core.job.windows import horizon_ms
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import ROOT_PARENT, Generation
from cutwater.core.protocol.records import Barrier, Claim, Milestone, Release, Signal

_UNKNOWN_CHANGE = "the key, the event time, the window, the shards, or what a measure is computed from differs"
"""The state's schema, which has the measures' names and types, is the same then."""


@dataclass(frozen=True)
class Origin:
    """What a generation takes over from its parent milestone; the default is that of a job's first generation."""

    source_cut: Cut = field(default_factory=Cut)
    """The events below it are in the seed."""
    floor_ms: int = 0
    """Of the parent, see `floor_behind`: what comes for windows that end at or below it is late."""
    horizon_ms: int = 0
    """The parent's: no seed is below it, whatever the retention says now."""
    origin_cut: Cut = field(default_factory=Cut)
    """Where the source cut lies in the regions whose sources are read as copies."""

    @staticmethod
    def of(parent: Milestone) -> Origin:
        return Origin(parent.source_cut, parent.watermark_ms, parent.horizon_ms, parent.origin_cut)

    def raised(self, floor_ms: int) -> Origin:
        """With a floor that is this one or higher."""
        return replace(self, floor_ms=max(self.floor_ms, floor_ms))

    def range(self, plan: Plan, before: Plan | None) -> Range:
        """The offsets of an epoch, of which `before` planned the one before it.

        Spark drops by the watermark of the epoch before, and evicts by this one's. A generation's own watermark
        begins at 0, and no window may open again that its parent had closed.
        """
        if before is None:
            return Range(self.source_cut, plan.source_cut, self.floor_ms)
        return Range(before.source_cut, plan.source_cut, max(self.floor_ms, before.watermark_ms))

    def watermark_ms(self, plan: Plan) -> int:
        """What an epoch's barrier reports."""
        return max(self.floor_ms, plan.watermark_ms)

    def horizon_at(self, watermark_ms: int, retention_ms: int, before_ms: int = 0) -> int:
        """Where the horizon stands at a watermark; `before_ms`: where it stood an epoch before.

        It never goes back, however long the retention is made in between: what it has passed, views have dropped,
        the changelog may have been cleared of, and a copy that began with a snapshot never had.
        """
        return max(self.horizon_ms, before_ms, horizon_ms(watermark_ms, retention_ms))


FIRST = Origin()


def claimed(generation: Generation) -> bool:
    """Was it started from a milestone, so that a claim names it? All were but a job's first one."""
    return generation.parent != ROOT_PARENT


def floor_behind(claim: Claim, parent: Milestone, signals: Iterable[Signal]) -> int:
    """The watermark that a candidate begins with: the parent's, once that had closed what it had read.

    An epoch's watermark does not count what the epoch itself has read; the next one's does. Where that one read
    nothing, the source is at rest, and a candidate that starts behind it sees none of these events: it would stay
    behind that watermark until another event comes. And no event was counted between the two, so none becomes
    late by it.

    `signals` come from the parent milestone's place on the barriers topic on; no more than needed are taken. After
    a failover they are another region's, and a rollback has nothing to catch up with.
    """
    for one in () if claim.origin or claim.rewinds_to else signals:
        if isinstance(one, Barrier) and one.generation == parent.generation and one.epoch > parent.epoch:
            at_rest = one.source_cut == parent.source_cut
            return max(parent.watermark_ms, one.watermark_ms) if at_rest else parent.watermark_ms
    return parent.watermark_ms


def require_at_work(generation: Generation, last: Milestone | None, candidate: Candidate | None) -> None:
    """Raise FencedError where a generation is neither the promoted one nor a candidate that may still become it.

    `last` is the newest milestone of the commit stream; `candidate` the generation's claim, if it has one.
    """
    if last is not None and last.generation == generation:
        return
    if last is None and not claimed(generation):
        return
    if candidate is None:
        ended = f"{last.generation} is promoted" if last else "nothing is promoted yet"
        raise FencedError(
            f"{generation} is at its end: {ended}, and {generation} is no candidate; this driver leaves"
        )
    if candidate.withdrawn is not None:
        raise FencedError(f"{generation} was given up ({candidate.withdrawn}); this driver leaves")
    if last is not None and generation.number < last.generation.number:
        raise FencedError(f"{generation} is at its end: {last.generation} is promoted; this driver leaves")


def require_unreleased(generation: Generation, released: Release | None) -> None:
    """Raise FencedError where the generation's job was given up for another region, which goes on from there."""
    if released is not None and released.generation == generation:
        raise FencedError(
            f"the job was released to region {released.to} behind milestone {released.token}; this driver leaves"
        )


def require_mergeable(job: Job) -> None:
    """Raise UsageError where a measure comes from a query of the user's own: what it merges to is not known."""
    for measure in job.measures:
        if measure.kind == VALUE:
            raise unmergeable(measure.name)


def require_startable(
    job: Job, fingerprint: str, parent: Milestone, partitions: Mapping[str, int], kept: str | None = None
) -> None:
    """Raise UsageError where the job's state cannot go on from the parent's.

    `fingerprint` is that of the job's state, `partitions` how many each source topic that exists has now. `kept`:
    the definition that the parent's generation was begun with, where it can be read; the milestone has its hash.
    """
    if parent.schema_fingerprint != fingerprint:
        raise UsageError(
            f"the state at {parent.token} is of schema {parent.schema_fingerprint}, and the job file's measures "
            f"say {fingerprint}: a generation goes on with its parent's measures. Put the job file back"
        )
    if parent.definition != job.fingerprint:
        changed = differences(kept, job.meaning) if kept else _UNKNOWN_CHANGE
        raise UsageError(
            f"the rows of {parent.token} are of definition {parent.definition}, and the job file's is "
            f"{job.fingerprint}: {changed}. A generation goes on with its parent's rows: put the job file back "
            f"that {parent.generation} was started with, or start a new job"
        )
    for place, _ in parent.source_cut:
        read = f"{parent.token} has read {place.topic}/{place.partition}"
        if place.topic != job.topic and copied_region(job.topic, place.topic) is None:
            raise UsageError(
                f"{read}, and the job file's source is {job.topic}: a generation goes on with its parent's sources"
            )
        if place.topic not in partitions:
            raise UsageError(
                f"{read}, and there is no topic {place.topic} here: a generation goes on with its parent's "
                "sources. Start it from a milestone whose events are here"
            )
        if place.partition >= partitions[place.topic]:
            raise UsageError(
                f"{read}, and {place.topic} has {partitions[place.topic]} partitions: a generation goes on with "
                "its parent's sources"
            )


def require_kept(parent: Milestone, kept: Mapping[TopicPartition, tuple[int, int]]) -> None:
    """Raise UsageError where a source no longer holds the events behind the parent's cut.

    `kept`: first offset and end of each partition of the sources.
    """
    for place, offset in parent.source_cut:
        first, end = kept[place]
        if not first <= offset <= end:
            raise UsageError(
                f"{parent.token} ends at offset {offset} of {place.topic}/{place.partition}, which holds {first} "
                f"to {end}: events behind the milestone are gone. Start the generation from a later milestone"
            )


def require_own_changelog(job: str, parent: Milestone) -> None:
    """Raise UsageError where the parent's changelog cut is not one of its own topic."""
    topic = topics.changelog(job, parent.generation)
    if not len(parent.changelog_cut) or any(place.topic != topic for place, _ in parent.changelog_cut):
        raise UsageError(
            f"the changelog cut of {parent.token} is not of {topic}: it is a milestone of another job"
        )
