"""`foreachBatch` of every query: one epoch under a lock. `core.driver.epoch` has its steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.runtime.crash_points import reach
from cutwater.core.driver.epoch import Epochs
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.driver.lateness import ByFloor
from cutwater.core.driver.ports import Clearing, Past
from cutwater.core.driver.row_proof import Written
from cutwater.core.errors import UnavailableError
from cutwater.core.generations.start_state import StartState
from cutwater.core.job.job import Job
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier
from cutwater.core.tracing.trace_steps import EpochMoments
from cutwater_spark.checkpoint import Checkpoint
from cutwater_spark.epoch.barriers import BarrierLog
from cutwater_spark.epoch.changelog_sink import Changelog
from cutwater_spark.epoch.pauses import EpochPauses
from cutwater_spark.epoch.time_jumps import JumpCheck
from cutwater_spark.query.query import changelog_rows

ObserveInput = Callable[[], InputStats]
"""Returns the observation on the input of the epoch whose action just ran."""


class EpochTimes(NamedTuple):
    """How long an epoch took here, beside what Spark does before and behind it. `began_s`: monotonic."""

    began_s: float
    seconds: float
    write_s: float
    """Of these, the one action."""
    paused_s: float
    """Before `began_s`: a candidate's rest, and the lock."""


def observe_amended(aggregates: DataFrame, watermark_ms: int) -> tuple[DataFrame, Observation]:
    """Return the rows with an observation `rows`: how many are of windows that end at or below the watermark.

    Structs are compared: Spark writes a plain time into the code that it generates, and compiles that anew with
    each epoch's watermark.
    """
    amended = Observation("cutwater_amended")
    closed = f"named_struct('end', timestamp_millis({watermark_ms}L))"
    counted = f"count_if(named_struct('end', __window.end) <= {closed}) as rows"
    return aggregates.observe(amended, F.expr(counted)), amended


class EpochWriter:
    """Turns each micro-batch into rows and a barrier. `lock` is held meanwhile: no heartbeat sees half of one."""

    def __init__(
        self,
        job: Job,
        generation: Generation,
        attempt: int,
        state_header: bytes,
        past: Past,
        changelog: Changelog,
        clearing: Clearing,
        barriers: BarrierLog,
        checkpoint: Checkpoint,
        look: ObserveInput,
        now_ms: Callable[[], int],
        origin: StartState,
        pauses: EpochPauses,
    ) -> None:
        self._job = job
        self._state_header = state_header
        self._changelog = changelog
        self._look = look
        self._now_ms = now_ms
        self._pauses = pauses
        fingerprint = crc64(job.state_schema).hex()
        self.steps = Epochs(
            job,
            generation,
            attempt,
            past,
            changelog,
            barriers,
            checkpoint,
            fingerprint,
            now_ms,
            clearing,
            reach,
            origin,
        )
        self.lock = threading.Lock()
        self.stopping = False
        self.failure: BaseException | None = None
        self.jumps: JumpCheck | None = None
        """Set by the driver if the job has a `max_jump`."""
        self.took: Callable[[EpochTimes], None] | None = None
        """Set by a driver that limits its epochs: receives the times of each."""
        self._write_s = 0.0
        self.report: Callable[[Barrier, EpochMoments], None] | None = None
        """Set by the attempt: receives the barrier and the moments of each epoch."""

    @property
    def newest_own(self) -> Barrier | None:
        return self.steps.newest_own

    def accept_next_query(self) -> None:
        """Accept epochs of another query, after the previous one has stopped."""
        self.stopping, self.failure = False, None

    def _write_epoch(self, aggregates: DataFrame, epoch: int) -> None:
        at: list[int] = []

        def write(me: Writer) -> Written:
            at.append(self._now_ms())
            written = self._write(aggregates, me)
            at.append(self._now_ms())
            return written

        def look() -> InputStats:
            at.append(self._now_ms())
            return self._look()

        self.steps.write(epoch, write, look)
        if self.report is not None and self.newest_own is not None:
            cleared_ms, rows_ms, proved_ms = at
            self.report(self.newest_own, EpochMoments(cleared_ms, rows_ms, proved_ms, self._now_ms()))

    def _write(self, aggregates: DataFrame, me: Writer) -> Written:
        amended = None
        if isinstance(self.steps.closing, ByFloor):
            aggregates, amended = observe_amended(aggregates, self.steps.watermark_before(me.epoch))
        began_s = time.monotonic()
        written = self._changelog.write(changelog_rows(aggregates, self._job, me, self._state_header), amended)
        self._write_s = time.monotonic() - began_s
        return written

    def __call__(self, aggregates: DataFrame, epoch: int) -> None:
        """Write an epoch for Spark. An error ends the query; `failure` has it without the JVM's wrapper."""
        called_s = time.monotonic()
        try:
            # The rest is before the lock, which heartbeats and a stop need.
            with self._pauses.epoch(), self.lock:
                if self.stopping:
                    raise UnavailableError(f"epoch {epoch} is left to the next attempt: the driver is stopping")
                began_s = time.monotonic()
                if self.jumps is not None:
                    self.jumps.check_epoch(epoch)
                self._write_epoch(aggregates, epoch)
                if self.took is not None:
                    took_s = time.monotonic() - began_s
                    self.took(EpochTimes(began_s, took_s, self._write_s, began_s - called_s))
        except BaseException as error:
            self.failure = error
            raise
