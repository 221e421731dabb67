"""Start state of a generation (empty, or its parent milestone), and checks whether a driver may work for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cutwater.core.errors import FencedError, UsageError
from cutwater.core.generations.candidates import Candidate
from cutwater.core.generations.job_change import compare_jobs
from cutwater.core.generations.source_topics import copied_region
from cutwater.core.job.job import Job, differences
from cutwater.core.job.windows import horizon_ms
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, EpochPlan, Range, TopicPartition
from cutwater.core.protocol.generation import ROOT_PARENT, Generation
from cutwater.core.protocol.records import Barrier, Claim, Milestone, Redefinition, Release, Reopening, Signal

_UNKNOWN_CHANGE = "the key, the event time, the window, the shards, or what a measure is computed from differs"
"""Used if the state's schema, with the measures' names and types, is the same."""


_DIFFERENT = "To start a generation with another one, run 'cutwater generation start --job-file FILE'"


@dataclass(frozen=True)
class StartState:
    """The values that a generation takes over from its parent milestone; default: a job's first generation."""

    source_cut: Cut = field(default_factory=Cut)
    """The events below it are in the seed."""
    floor_ms: int = 0
    """Events for windows that end at or below it are late."""
    horizon_ms: int = 0
    """The parent's horizon: no seed is below it, whatever the retention is now."""
    origin_cut: Cut = field(default_factory=Cut)
    """The source cut in the offsets of the regions whose sources are read as copies."""
    first_watermark_ms: int = 0
    """The parent's watermark, see `floor_behind`."""
    held_cut: Cut = field(default_factory=Cut)
    """The floor is not raised before the events below it are read."""

    @staticmethod
    def of(parent: Milestone, amends: bool = False) -> StartState:
        """`amends`: whether events may amend windows between floor and watermark."""
        floor_ms = parent.floor_ms if amends else parent.watermark_ms
        return StartState(parent.source_cut, floor_ms, parent.horizon_ms, parent.origin_cut, parent.watermark_ms)

    def reopened(self, reopening: Reopening | None) -> StartState:
        """Return a copy for which windows are open that the parent had closed: the seed holds them whole."""
        if reopening is None:
            return self
        return replace(self, floor_ms=reopening.floor_ms, held_cut=reopening.source_cut)

    def above(self, horizon_ms: int) -> StartState:
        """Return a copy that has dropped the windows up to a horizon: no event comes for them any more."""
        return replace(self, horizon_ms=max(self.horizon_ms, horizon_ms), floor_ms=max(self.floor_ms, horizon_ms))

    def raised(self, watermark_ms: int, amends: bool = False) -> StartState:
        """Return a copy with a higher watermark, and floor."""
        floor_ms = self.floor_ms if amends else max(self.floor_ms, watermark_ms)
        return replace(self, floor_ms=floor_ms, first_watermark_ms=max(self.first_watermark_ms, watermark_ms))

    def range(self, plan: EpochPlan, before: EpochPlan | None) -> Range:
        """Return the offsets of an epoch; `before`: the plan of the epoch before.

        Spark drops late events by the previous epoch's watermark and evicts by this epoch's. A generation's own
        watermark starts at 0, but a window that its parent had closed must not open again.
        """
        if before is None:
            return Range(self.source_cut, plan.source_cut, self.floor_ms)
        return Range(before.source_cut, plan.source_cut, max(self.floor_ms, before.watermark_ms))

    def watermark_ms(self, plan: EpochPlan) -> int:
        """Return the watermark that an epoch's barrier reports."""
        return max(self.floor_ms, self.first_watermark_ms, plan.watermark_ms)

    def horizon_at(
        self, watermark_ms: int, retention_ms: int, before_ms: int = 0, floor_ms: int | None = None
    ) -> int:
        """Return the horizon at a watermark; `before_ms`: the horizon of the epoch before. It is never above
        `floor_ms`: an event must not come for a window that is gone.

        The horizon never goes back, even if the retention gets longer. Views have dropped the windows below it,
        the changelog may have been cleared of them, and a copy started from a snapshot never had them.
        """
        at_ms = horizon_ms(watermark_ms, retention_ms)
        return max(self.horizon_ms, before_ms, at_ms if floor_ms is None else min(at_ms, floor_ms))


FIRST = StartState()


def is_claimed(generation: Generation) -> bool:
    """Return whether a claim names the generation; true for all except a job's first one."""
    return generation.parent != ROOT_PARENT


def floor_behind(claim: Claim, parent: Milestone, signals: Iterable[Signal]) -> int:
    """Return a candidate's first watermark: the parent's, or the next epoch's if that epoch read nothing.

    An epoch's watermark excludes the epoch's own events; the next epoch's includes them. If the next epoch read
    nothing, the source is at rest, and a candidate that starts after it sees none of these events: it would stay
    behind that watermark until another event arrives. No event was counted in between, so none becomes late.

    `signals`: those from the parent milestone's position on the barriers topic; only as many as needed are read.
    They are ignored after a failover, as they are another region's, and for a rollback, which need not catch up.
    """
    for one in () if claim.origin or claim.rewinds_to else signals:
        if isinstance(one, Barrier) and one.generation == parent.generation and one.epoch > parent.epoch:
            at_rest = one.source_cut == parent.source_cut
            return max(parent.watermark_ms, one.watermark_ms) if at_rest else parent.watermark_ms
    return parent.watermark_ms


def require_at_work(generation: Generation, last: Milestone | None, candidate: Candidate | None) -> None:
    """Raise FencedError if a generation is neither promoted nor a candidate that may still be promoted. `last`:
    the newest milestone of the commit stream. `candidate`: the generation's claim, if it has one."""
    if last is not None and last.generation == generation:
        return
    if last is None and not is_claimed(generation):
        return
    if candidate is None:
        ended = f"{last.generation} is promoted" if last else "nothing is promoted yet"
        raise FencedError(
            f"{generation} has ended: {ended}, and {generation} is not a candidate; this driver stops"
        )
    if candidate.withdrawn is not None:
        raise FencedError(f"{generation} was given up ({candidate.withdrawn}); this driver stops")
    if last is not None and generation.number < last.generation.number:
        raise FencedError(f"{generation} has ended: {last.generation} is promoted; this driver stops")


def require_unreleased(generation: Generation, released: Release | None) -> None:
    """Raise FencedError if the generation's job was released to another region, which continues it."""
    if released is not None and released.generation == generation:
        raise FencedError(
            f"the job was released to region {released.to} after milestone {released.token}; this driver stops"
        )


def require_startable(
    job: Job,
    fingerprint: str,
    parent: Milestone,
    partitions: Mapping[str, int],
    kept: str | None = None,
    before: Job | None = None,
) -> None:
    """Raise UsageError if the job's state cannot continue from the parent's.

    `fingerprint`: that of the job's state. `partitions`: the partition counts of the existing source topics.
    `kept`: the definition that the parent's generation was started with, if readable; the milestone has its hash.
    `before`: the parent's job, of a generation whose claim carries a job file of its own.
    """
    if before is not None:
        require_parent_definition(before, parent)
        compare_jobs(before, job).require_possible()
    else:
        _require_same_rows(job, fingerprint, parent, kept)
    for place, _ in parent.source_cut:
        read = f"{parent.token} has read {place.topic}/{place.partition}"
        if not job.attached and place.topic != job.topic and copied_region(job.topic, place.topic) is None:
            raise UsageError(
                f"{read}, but the job file's source is {job.topic}: a generation keeps its parent's sources"
            )
        if place.topic not in partitions:
            raise UsageError(
                f"{read}, but there is no topic {place.topic} here: a generation keeps its parent's sources. "
                "Start it from a milestone whose events are here"
            )
        if place.partition >= partitions[place.topic]:
            raise UsageError(
                f"{read}, but {place.topic} has {partitions[place.topic]} partitions: a generation keeps its "
                "parent's sources"
            )


def _require_same_rows(job: Job, fingerprint: str, parent: Milestone, kept: str | None) -> None:
    if parent.schema_fingerprint != fingerprint:
        raise UsageError(
            f"the state at {parent.token} is of schema {parent.schema_fingerprint}, but the job file's measures "
            f"say {fingerprint}: put the job file back. {_DIFFERENT}"
        )
    if parent.definition != job.fingerprint:
        changed = differences(kept, job.meaning) if kept else _UNKNOWN_CHANGE
        raise UsageError(
            f"the rows of {parent.token} are of definition {parent.definition}, but the job file's is "
            f"{job.fingerprint}: {changed}. Put the job file back that {parent.generation} was started with. "
            f"{_DIFFERENT}"
        )


def require_parent_definition(before: Job, parent: Milestone) -> None:
    """Raise UsageError if the job file that is named as the parent's is not."""
    if parent.definition != before.fingerprint:
        raise UsageError(
            f"the rows of {parent.token} are of definition {parent.definition}, but the job file that is to be "
            f"changed has {before.fingerprint}: name the one that {parent.generation} was started with"
        )


def require_claimed_definition(job: Job, redefinition: Redefinition | None) -> None:
    """Raise UsageError if a candidate's driver has another job file than its claim."""
    if redefinition is not None and redefinition.definition != job.fingerprint:
        raise UsageError(
            f"{redefinition.generation} was claimed with a job file of definition {redefinition.definition}, but "
            f"this one has {job.fingerprint}: 'cutwater generation job-file {redefinition.generation}' prints it"
        )


def require_kept(parent: Milestone, kept: Mapping[TopicPartition, tuple[int, int]]) -> None:
    """Raise UsageError if a source lacks events after the parent's cut. `kept`: first offset and end by
    partition."""
    for place, offset in parent.source_cut:
        first, end = kept[place]
        if not first <= offset <= end:
            raise UsageError(
                f"{parent.token} ends at offset {offset} of {place.topic}/{place.partition}, which holds {first} "
                f"to {end}: events after the milestone are gone. Start the generation from a later milestone"
            )


def require_own_changelog(job: str, parent: Milestone) -> None:
    """Raise UsageError if the parent's changelog cut is not on its own topic."""
    topic = topics.changelog(job, parent.generation)
    if not len(parent.changelog_cut) or any(place.topic != topic for place, _ in parent.changelog_cut):
        raise UsageError(
            f"the changelog cut of {parent.token} is not of {topic}: it is a milestone of another job"
        )
