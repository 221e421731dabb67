"""One epoch, step by step: write, prove, list, tell. This is `foreachBatch` of every query."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.sql import DataFrame

from cutwater.adapters.avro import crc64
from cutwater.core.cuts import Cut
from cutwater.core.errors import UnavailableError
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.core.proof import Writer
from cutwater.core.records import Barrier
from cutwater.core.rejection import Seen
from cutwater.core.windows import horizon_ms
from cutwater_spark.barriers import BarrierLog, Past
from cutwater_spark.changelog import Changelog
from cutwater_spark.checkpoint import Checkpoint, Plan
from cutwater_spark.lists import Lists, Range
from cutwater_spark.query import changelog_rows

LookAtInput = Callable[[], Seen]
"""What was observed on the input of the epoch whose action just ran."""


class EpochWriter:
    """Turns each micro-batch into rows on the changelog and a barrier.

    `lock` is held while an epoch is written, so that a heartbeat never looks at half of one.
    """

    def __init__(
        self,
        job: Job,
        generation: Generation,
        attempt: int,
        state_header: bytes,
        past: Past,
        changelog: Changelog,
        barriers: BarrierLog,
        checkpoint: Checkpoint,
        lists: Lists | None,
        look: LookAtInput,
        now_ms: Callable[[], int],
    ) -> None:
        self._job = job
        self._writer = Writer(generation, attempt, -1)
        self._state_header = state_header
        self._past = past
        self._changelog = changelog
        self._barriers = barriers
        self._checkpoint = checkpoint
        self._lists = lists
        self._look = look
        self._now_ms = now_ms
        self._fingerprint = crc64(job.state_schema).hex()
        self.lock = threading.Lock()
        self.stopping = False
        self._planned: tuple[int, Plan] | None = None
        self.failure: BaseException | None = None

    @property
    def newest(self) -> Barrier | None:
        return self._past.newest

    @property
    def newest_own(self) -> Barrier | None:
        """The newest barrier of this attempt."""
        newest = self._past.newest
        return newest if newest and newest.attempt == self._writer.attempt else None

    def __call__(self, aggregates: DataFrame, epoch: int) -> None:
        """Called by Spark. An error ends the query; `failure` keeps it from being wrapped by the JVM."""
        try:
            with self.lock:
                if self.stopping:
                    raise UnavailableError(f"epoch {epoch} is left to the next attempt: the driver is stopping")
                self._write(aggregates, epoch)
        except BaseException as error:
            self.failure = error
            raise

    def _write(self, aggregates: DataFrame, epoch: int) -> None:
        started_ms = self._now_ms()
        me = self._writer._replace(epoch=epoch)
        written = self._changelog.write(changelog_rows(aggregates, self._job, me, self._state_header))
        before = self._past.before(epoch)
        changelog_cut = self._changelog.prove(before.changelog_cut if before else Cut(), me, written)
        plan, seen = self._checkpoint.plan(epoch), self._look()
        late = self._lists.write(me, self._range(plan, epoch), seen) if self._lists and seen.events else 0
        barrier = Barrier(
            job=self._job.name,
            generation=me.generation,
            attempt=me.attempt,
            epoch=epoch,
            source_cut=plan.source_cut,
            changelog_cut=changelog_cut,
            watermark_ms=plan.watermark_ms,
            horizon_ms=horizon_ms(plan.watermark_ms, self._job.retention_ms),
            rows=sum(written.rows.values()),
            digest=written.digest,
            events=seen.events,
            rejected=seen.rejected,
            late=late,
            skew_ms=seen.skew_ms,
            schema_fingerprint=self._fingerprint,
            epoch_started_ms=started_ms,
            written_ms=self._now_ms(),
        )
        self._barriers.write(barrier)
        self._planned = (epoch, plan)
        self._past = Past(me.attempt, {**dict(sorted(self._past.barriers.items())[-2:]), epoch: barrier})

    def _range(self, plan: Plan, epoch: int) -> Range:
        """Spark drops by the watermark of the epoch before, and evicts by this one's."""
        if epoch == 0:
            return Range(Cut(), plan.source_cut, 0)
        # Known from that epoch itself, but for the first of an attempt: its file is not read a second time.
        known = self._planned if self._planned and self._planned[0] == epoch - 1 else None
        before = known[1] if known else self._checkpoint.plan(epoch - 1)
        return Range(before.source_cut, plan.source_cut, before.watermark_ms)
