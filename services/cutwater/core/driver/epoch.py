"""One epoch, step by step: check, clear, write, prove, list, write the barrier."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.core.driver.clock_check import LOOK_MS, require_clock
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.driver.lateness import ByFloor, ByWatermark, Closing
from cutwater.core.driver.ports import (
    Barriers,
    Checkpoint,
    Clearing,
    ListCounts,
    Lists,
    Past,
    Reached,
    Rows,
    nowhere,
)
from cutwater.core.driver.row_proof import Written
from cutwater.core.generations.source_topics import moved_on
from cutwater.core.generations.start_state import FIRST, StartState
from cutwater.core.job.job import Job
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.cuts import Cut, EpochPlan, Range
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier


class Epochs:
    """Turns each micro-batch of one attempt into rows on the changelog and a barrier."""

    def __init__(
        self,
        job: Job,
        generation: Generation,
        attempt: int,
        past: Past,
        rows: Rows,
        barriers: Barriers,
        checkpoint: Checkpoint,
        fingerprint: str,
        now_ms: Callable[[], int],
        clearing: Clearing | None = None,
        reached: Reached = nowhere,
        origin: StartState = FIRST,
    ) -> None:
        self._job = job
        self._writer = Writer(generation, attempt, -1)
        self._past = past
        self._rows = rows
        self._barriers = barriers
        self._checkpoint = checkpoint
        self.closing: Closing = ByWatermark(origin)
        """Set by the starter of a query whose windows close by a floor."""
        self.lists: Lists | None = None
        """Set by the starter of a query that lists unusable and late events; reads as that query does."""
        self._fingerprint = fingerprint
        self._now_ms = now_ms
        self._clearing = clearing
        self._reached = reached
        self._origin = origin
        self._planned: tuple[int, EpochPlan] | None = None
        self._clock_looked_ms = 0
        self._newest_event_ms: int | None = None
        """The newest event time of the epochs up to this attempt's last one."""

    def _require_clock(self, cut: Cut, written: Written, began_ms: int) -> None:
        """Raise UnavailableError if this clock differs from the brokers'; checked every `LOOK_MS`."""
        now = self._now_ms()
        if 0 <= now - self._clock_looked_ms < LOOK_MS or not any(written.rows.values()):
            return
        if (told := self._rows.read_append_time(cut, written)) is not None:
            where, appended_ms = told
            require_clock(began_ms, now, appended_ms, where)
            self._clock_looked_ms = now

    @property
    def newest(self) -> Barrier | None:
        return self._past.newest

    @property
    def newest_own(self) -> Barrier | None:
        """The newest barrier of this attempt."""
        newest = self._past.newest
        return newest if newest and newest.attempt == self._writer.attempt else None

    @property
    def newest_plan(self) -> EpochPlan | None:
        """The plan of the newest epoch that this attempt has written."""
        return self._planned[1] if self._planned else None

    def watermark_before(self, epoch: int) -> int:
        """Return the watermark of the epoch before, which is committed; that of the start state if none is."""
        before = self._past.newest_before(epoch)
        return before.watermark_ms if before else self._origin.first_watermark_ms

    def newest_event_before(self, epoch: int) -> int | None:
        """Return the newest event time of the epochs before; None if none is known.

        In a backlog it is ahead of the watermark by more than the lateness: that follows the partition furthest
        behind. For an attempt's first epoch it is at most ahead of the real one by how far the partitions were
        apart in the epoch before.
        """
        before, watermark_ms = self._past.newest_before(epoch), self.watermark_before(epoch)
        if watermark_ms <= 0:
            return self._newest_event_ms
        told_ms = watermark_ms + self._job.lateness_ms
        if self._newest_event_ms is None:
            return told_ms + before.skew_ms if before and isinstance(self.closing, ByFloor) else told_ms
        return max(told_ms, self._newest_event_ms)

    def unfinished(self) -> int | None:
        """Return the uncommitted epoch with rows or a barrier of any attempt. No query may run meanwhile."""
        epoch = self._checkpoint.newest_committed() + 1
        told = self.newest is not None and self.newest.epoch >= epoch
        return epoch if told or self._rows.has_grown(self._past.newest_before(epoch)) else None

    def write(self, epoch: int, action: Callable[[Writer], Written], look: Callable[[], InputStats]) -> None:
        """Write one epoch. `action`: writes the rows, once. `look`: returns the observed input statistics."""
        started_ms = self._now_ms()
        me = self._writer._replace(epoch=epoch)
        before = self._past.newest_before(epoch)  # it is committed, otherwise Spark would not run its successor
        plan = self._checkpoint.plan(epoch)
        self._rows.begin_epoch(before, plan.source_cut)
        buried = self._clearing.collect(me, before) if self._clearing else {}
        if buried:
            self._reached("cleared")
        written = action(me)
        self._reached("rows-written")
        proved = self._rows.prove(before, me, written, buried)
        self._require_clock(proved.changelog_cut, written, started_ms)
        seen = look()
        listed = ListCounts()
        if self.lists and seen.events:
            listed = self.lists.write(me, self._range(plan, epoch), seen)
        watermark_ms, retention_ms = self.closing.watermark_ms(plan, before, seen), self._job.rows_retention_ms
        floor_ms, horizon_ms = self.closing.floor_ms(watermark_ms), before.horizon_ms if before else 0
        # Rows of windows that an event may still come for are needed, also those that take no event any more.
        needed_above_ms = floor_ms - self._job.overlap_ms
        barrier = Barrier(
            job=self._job.name,
            generation=me.generation,
            attempt=me.attempt,
            epoch=epoch,
            source_cut=plan.source_cut,
            changelog_cut=proved.changelog_cut,
            watermark_ms=watermark_ms,
            horizon_ms=self._origin.horizon_at(watermark_ms, retention_ms, horizon_ms, needed_above_ms),
            floor_ms=floor_ms,
            rows=sum(written.rows.values()),
            digest=written.digest,
            events=seen.events - seen.left_out,
            rejected=seen.rejected,
            no_value=listed.no_value,
            late=listed.late,
            amended=written.amended,
            skew_ms=seen.skew_ms,
            schema_fingerprint=self._fingerprint,
            definition=self._job.fingerprint,
            epoch_started_ms=started_ms,
            written_ms=self._now_ms(),
            tombstones=sum(buried.values()),
            collected=self._clearing.collected if self._clearing else (),
            partition_rows=tuple(written.rows[number] for number in sorted(written.rows)),
            partition_digests=tuple(written.digests[number] for number in sorted(written.digests)),
            origin_cut=moved_on(before.origin_cut if before else self._origin.origin_cut, seen.copied),
            evidence=proved.evidence,
        )
        self._reached("rows-proved")
        self._barriers.write(barrier)
        self._reached("barrier-written")
        self._planned = (epoch, plan)
        times_ms = [self.newest_event_before(epoch), *seen.newest_ms.values()]
        self._newest_event_ms = max((one for one in times_ms if one is not None), default=None)
        self._past = self._past.with_(barrier)

    def _range(self, plan: EpochPlan, epoch: int) -> Range:
        if epoch == 0:
            return self.closing.range(plan, None)
        # The plan of the epoch before is known, except for an attempt's first epoch: avoid reading its file again.
        known = self._planned if self._planned and self._planned[0] == epoch - 1 else None
        return self.closing.range(plan, known[1] if known else self._checkpoint.plan(epoch - 1))
