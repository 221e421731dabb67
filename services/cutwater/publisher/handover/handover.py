"""The publisher's hand-over to another generation: finds its milestone, and opens the two states to compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.candidates import promoted
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.core.errors import CutwaterError, DivergenceError, UsageError
from cutwater.core.job.job import FINAL, UPDATE, Job
from cutwater.core.output.handover import Handover, RowKinds, Succession
from cutwater.core.output.position import NEVER_MS, Published, applied
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Heartbeat, Milestone
from cutwater.core.state.reader_names import PUBLISHER
from cutwater.publisher.handover.state_diff import DifferenceSource, Side, Within
from cutwater.publisher.handover.state_stores import StateReader, StateStores, compared_above_ms
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.follow.milestone_feed import MilestoneFeed
from cutwater.views.store.store import Store

POLL_S = 0.1
GONE_S = 20.0
"""The time until a missing topic counts as deleted: a restarted broker may not know its topics at first."""
_EVER_MS = (1 << 62) - 1
"""Later than every window."""


@dataclass(frozen=True)
class Attempt:
    """One try to write a difference, or the rest of one."""

    plan: Handover
    position: Published
    """Its progress is the cut of the state that is compared with."""
    source: DifferenceSource


class OtherJob(Exception):
    """The promoted generation has another job file: its own publisher makes the hand-over."""

    def __init__(self, job: Job, generation: Generation) -> None:
        super().__init__(str(generation))
        self.job, self.generation = job, generation


class HandoverRunner:
    """Makes hand-overs from the published position."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        states: StateStores,
        log: Any,
        now_ms: Callable[[], int],
        stopping: Callable[[], bool],
        jobs: GenerationJobs | None = None,
    ) -> None:
        """`jobs`: those of the generations; None: each has this job."""
        self._cluster = cluster
        self._job, self._jobs = job, jobs
        self._states = states
        self._final = job.output.mode == "final"
        self._log = log
        self._now_ms = now_ms
        self._stopping = stopping
        self._reading = StateReader(cluster, job, states, log, now_ms, stopping)

    def is_left_behind(self, generation: Generation, error: CutwaterError) -> bool:
        """Return True if the rest of a generation's changelog is given up: another generation is promoted, and a
        new read cannot succeed. Writes an error to the log."""
        last = promoted(self._cluster, self._job.name)
        if last is None or last.generation.number <= generation.number:
            return False
        if not isinstance(error, DivergenceError | UsageError) and not self._is_deleted(generation):
            return False
        self._log.error(
            "left behind", generation=str(generation), promoted=str(last.generation), reason=str(error)
        )
        return True

    @contextmanager
    def attempt(self, position: Published, whole: Milestone | None) -> Iterator[Attempt]:
        """Prepare the next hand-over. Wait for one; if compaction overtakes it, use a later milestone. Raise
        Stopped if the process stops; DivergenceError if the commit stream or the new changelog is broken."""
        entry = applied(position, whole)
        succession = Succession(position.generation, entry, position.target)
        feed = MilestoneFeed(
            self._cluster, topics.milestones(self._job.name), entry.offset if entry else None, PUBLISHER
        )
        with closing(feed):
            plan, new = self._find_target(feed, succession, whole)
        with ExitStack() as stores:
            stores.enter_context(closing(new))
            old = self._old(plan, position, whole)
            if old is not None:
                stores.enter_context(closing(old))
                if old.segment_ms != new.segment_ms and old.job.fingerprint != new.job.fingerprint:
                    self._log.error(
                        "other windows",
                        token=str(plan.to.milestone.token),
                        consequence="every row is a correction; rows of the old windows get no tombstone",
                    )
                    old = None
            attempt = self._attempt(plan, position, whole, old, new)
            reach("states-read")
            yield attempt

    def _find_target(
        self, feed: MilestoneFeed, succession: Succession, whole: Milestone | None
    ) -> tuple[Handover, Store]:
        """Return the hand-over's plan, and the complete state at its milestone."""
        while not self._stopping():
            for record in feed.poll(POLL_S):
                if not isinstance(record, Heartbeat):
                    succession.add(record)
            plan = succession.plan(self._now_ms()) if feed.at_end else None
            if plan is None:
                continue
            self._require_own_job(plan.to.milestone)
            self._states.drop_other_preloads({plan.to.milestone.generation, succession.generation})
            try:
                return plan, self._reading.state(plan.to, self._rows_floor_ms(plan.to.milestone, whole))
            except Overtaken as overtaken:
                self._log.warning("overtaken", token=str(plan.to.milestone.token), looked=overtaken.looked)
                succession.mark_overtaken(plan.to, overtaken.looked)
        raise Stopped

    def _require_own_job(self, to: Milestone) -> None:
        """Raise OtherJob if the milestone's rows are of another job file."""
        job = self._jobs.at(to) if self._jobs else self._job
        if job.fingerprint != self._job.fingerprint:
            raise OtherJob(job, to.generation)

    def _overlaps_ms(self, whole: Milestone) -> tuple[int, int]:
        """Return `Job.overlap_ms` of the published generation and of this one, the shorter one first."""
        published = self._jobs.of(whole.generation, whole.definition) if self._jobs else self._job
        lengths = published.overlap_ms, self._job.overlap_ms
        return min(lengths), max(lengths)

    def _floor_ms(self, to: Milestone, whole: Milestone | None) -> int:
        return NEVER_MS // 2 if whole is None else compared_above_ms(self._overlaps_ms(whole)[0], to, whole)

    def _rows_floor_ms(self, to: Milestone, whole: Milestone | None) -> int:
        """Return the end up to which no row is needed for the compared windows."""
        longest_ms = self._overlaps_ms(whole)[1] if whole else self._job.overlap_ms
        return self._floor_ms(to, whole) - longest_ms

    def _old(self, plan: Handover, position: Published, whole: Milestone | None) -> Store | None:
        """Return the published state; None, with an error in the log, if it cannot be read any more."""
        entry = applied(position, whole)
        if entry is None or whole is None:
            return None
        try:
            if self._is_deleted(whole.generation):
                raise UsageError(f"{topics.changelog(self._job.name, whole.generation)} does not exist")
            return self._reading.state(entry, self._rows_floor_ms(plan.to.milestone, whole), or_later=self._final)
        except (DivergenceError, UsageError, Overtaken) as error:
            reason = "compaction has removed values of it" if isinstance(error, Overtaken) else str(error)
            self._log.error(
                "published state lost",
                token=str(whole.token),
                reason=reason,
                consequence="every row is repeated as a correction; rows deleted since get no tombstone",
            )
            return None

    def _is_deleted(self, generation: Generation) -> bool:
        """Return True if the changelog does not exist for `GONE_S`."""
        topic, deadline = topics.changelog(self._job.name, generation), time.monotonic() + GONE_S
        while True:
            try:
                partition_count(self._cluster, topic)
                return False
            except UsageError:
                if time.monotonic() > deadline:
                    return True
                if self._stopping():
                    raise Stopped from None
                time.sleep(POLL_S)

    def _attempt(
        self, plan: Handover, position: Published, whole: Milestone | None, old: Store | None, new: Store
    ) -> Attempt:
        to = plan.to.milestone
        if old is not None and old.segment_ms != new.segment_ms:
            raise DivergenceError(f"{old.folder} has another layout than {new.folder}: delete the older folder")
        mark = whole.changelog_cut if old is not None and whole is not None else Cut()
        goes_on = bool(position.parts) and (position.target, position.progress) == (to.sequence, mark)
        # The published parts lead to another milestone, which cannot be read any more: repeat all rows.
        repeat = bool(position.parts) and not goes_on
        floor_ms = self._floor_ms(to, whole)
        before = None
        if old is not None and whole is not None:
            before = old, self._within(self._known_above_ms(floor_ms, old, whole), whole)
        after = new, self._within(max(floor_ms, self._whole_above_ms(to)), to)
        suspects = None if repeat else self._suspects(before, after)
        source = DifferenceSource(
            self._job,
            before,
            after,
            RowKinds(
                FINAL if self._final else UPDATE,
                self._published_up_to_ms(plan, position, whole, old, repeat),
                self._job.shown_above_ms(to.horizon_ms),
            ),
            begun=sum(position.rows) if goes_on else 0,
            repeat=repeat,
            suspects=suspects,
        )
        self._log.info(
            "hand-over",
            token=str(to.token),
            after=str(whole.token) if whole else "none",
            rewinds_to=plan.rewinds_to,
            compares="all" if suspects is None else len(suspects),
        )
        return Attempt(plan, replace(position, progress=to.changelog_cut if repeat else mark), source)

    def _suspects(self, before: Side | None, after: Side) -> Sequence[bytes] | None:
        """Return the storage keys of the rows that may differ; None if all rows must be compared."""
        if before is None or before[1] != after[1]:
            return None
        return self._states.suspects(before[0], after[0], after[1][0])

    def _whole_above_ms(self, to: Milestone) -> int:
        """Return the window end above which the new state has all panes of its windows."""
        return self._job.shown_above_ms(to.horizon_ms) if self._job.overlap_ms else NEVER_MS

    def _known_above_ms(self, floor_ms: int, old: Store, whole: Milestone) -> int:
        """Return the window end above which the old store has all panes. Windows below it are said again."""
        if not old.job.overlap_ms:
            return floor_ms
        applied = old.applied.milestone if old.applied else whole
        dropped_ms = min(applied.horizon_ms, whole.watermark_ms - old.job.overlap_ms)
        return max(floor_ms, old.job.shown_above_ms(max(whole.horizon_ms, dropped_ms)))

    def _within(self, floor_ms: int, milestone: Milestone) -> Within:
        return floor_ms, milestone.watermark_ms if self._final else _EVER_MS

    def _published_up_to_ms(
        self, plan: Handover, position: Published, whole: Milestone | None, old: Store | None, repeat: bool
    ) -> int:
        """Return the window end up to which rows correct or repeat what was published before."""
        if repeat:
            return _EVER_MS
        if self._final:
            return position.closed_ms
        if whole is None:
            return NEVER_MS
        return _EVER_MS if old is None or plan.rewinds_to else whole.watermark_ms
