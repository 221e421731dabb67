"""The publisher of one job: follows the commit stream, publishes each milestone, and makes hand-overs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from cutwater.adapters.events.value_headers import OutputHeaders
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.garbage_collection import rare_collections
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import DivergenceError, MachineError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.output.position import nothing
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.recovery_log import StartRecord, unrecorded
from cutwater.core.state.backlog import Jump, Step
from cutwater.operations.correction_order import CorrectionOrders
from cutwater.publisher.encoding import encoder_for
from cutwater.publisher.handover.handover import POLL_S, HandoverRunner, OtherJob
from cutwater.publisher.handover.preload import BackgroundPreload
from cutwater.publisher.handover.state_stores import StateStores
from cutwater.publisher.metrics import Metrics
from cutwater.publisher.pipeline import Pipeline
from cutwater.publisher.sources.changed_rows import Source
from cutwater.publisher.sources.corrections import Corrections
from cutwater.publisher.transaction import OutputWriter, Transaction
from cutwater.publisher.transaction_parts import split_pieces
from cutwater.publisher.unpublished_milestones import UnpublishedMilestones, milestone_of
from cutwater.views.changelog.milestone_rows import PART_BYTES, PART_ROWS
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Ranges, Stopped
from cutwater.views.changelog.row_batch import Piece

LOOK_MS = 20_000

MakeSource = Callable[[Ranges, Generation], Source]
"""Makes the source of a generation's rows from the ranges of its changelog."""


class Publisher:
    """One publisher of one job. The transactional id lets at most one of them write."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        generation: Generation,
        make_source: MakeSource,
        states: StateStores,
        metrics: Metrics,
        log: Any,
        part_rows: int = PART_ROWS,
        clock: Callable[[], int] = now_ms,
        part_bytes: int = PART_BYTES,
        headers: OutputHeaders | None = None,
        account: StartRecord | None = None,
        pipeline: Pipeline | None = None,
        ahead: BackgroundPreload | None = None,
        sleep: Callable[[float], None] = time.sleep,
        orders: CorrectionOrders | None = None,
        jobs: GenerationJobs | None = None,
    ) -> None:
        """`generation`: the promoted one; a stored position overrides it. `jobs`: those of the generations; None:
        each has this job.

        `orders`: corrections that `cutwater verify --repair` orders are published from there; None: nowhere.

        `ahead`: preloads states for hand-overs; None: a hand-over loads them itself.
        `headers`: the registry's headers of the output's records; None without a registry.
        """
        self._cluster = cluster
        self._job = job
        self._make_source = make_source
        self._states = states
        self._orders = orders
        self._ahead = ahead
        self._metrics = metrics
        self._log = log
        self._part_rows = part_rows
        self._part_bytes = part_bytes
        self._now_ms = clock
        self._account = account or unrecorded()
        self._stop = threading.Event()
        self._position = nothing(job.name, generation, job.output_form)
        self._pipeline = pipeline or Pipeline()
        self._looked_ms = 0
        self._unwritten = False
        """True if a transaction is in progress or has failed: the position is then ahead of the topic."""
        self._jobs = jobs
        self.followed_by: OtherJob | None = None
        """Set once `run` has returned since the promoted generation has another job file."""
        self._handing_over = HandoverRunner(cluster, job, states, log, clock, self._stop.is_set, jobs)
        encoder = encoder_for(job, headers)
        self._writer = OutputWriter(cluster, job, generation, encoder, clock, sleep, self._form_of)

    def _form_of(self, generation: Generation) -> str:
        return (self._jobs.by_id(generation) if self._jobs else self._job).output_form

    def _is_of_own_job(self) -> bool:
        """Return True if the published generation has this publisher's job."""
        if self._jobs is None:
            return True
        generation, whole = self._position.generation, milestone_of(self._position)
        if whole is None or whole.generation != generation:
            return self._jobs.by_id(generation).fingerprint == self._job.fingerprint
        return self._jobs.of(generation, whole.definition).fingerprint == self._job.fingerprint

    def stop(self, *_signal: object) -> None:
        self._stop.set()

    def run(self) -> None:
        """Publish until stopped. Raise CutwaterError for a protocol error, a newer publisher or an outage."""
        with self._account as start:
            with start.step("fencing older publishers and reading their position"):
                self._position = self._writer.open()
            self._report_start(start, milestone_of(self._position))
        try:
            with rare_collections():
                while not self._stop.is_set():
                    if self._is_of_own_job():
                        self._follow()
                    if not self._stop.is_set():
                        self._hand_over()
            self._pipeline.settle()
        except Stopped:
            self._pipeline.settle()
        except OtherJob as other:
            self._pipeline.settle()
            self.followed_by = other
        finally:
            self._pipeline.close()
            if self._ahead is not None:
                self._ahead.close()

    def _report_start(self, start: StartRecord, whole: Milestone | None) -> None:
        position, newest = self._position, whole.token if whole else "none"
        start.record_facts(milestone=newest, target=position.target, parts=position.parts, rows=sum(position.rows))
        parts = f", with part {position.parts} of sequence {position.target}" if position.parts else ""
        start.record_decision(f"continue after milestone {newest}{parts}")
        self._log.info("ready", sequence=whole.sequence if whole else 0, parts=position.parts)

    def _follow(self) -> None:
        """Publish the position's generation, until stopped or until another generation follows it."""
        position = self._position
        topic = topics.changelog(self._job.name, position.generation)
        with ExitStack() as stack:
            ranges = stack.enter_context(closing(Ranges(self._cluster, topic, self._stop.is_set)))
            source = self._source(ranges)
            if source is None:
                return
            stack.enter_context(closing(source))
            following = stack.enter_context(closing(UnpublishedMilestones(self._cluster, self._job, position)))
            corrections = Corrections(self._job, ranges, self._now_ms)
            quiet = False
            while not self._stop.is_set() and not following.ended:
                self._pipeline.check()
                quiet = quiet or self._start_preload(stack)
                self._advance(following, source, corrections)
                self._look_now_and_then()
        self._pipeline.settle()

    def _start_preload(self, stack: ExitStack) -> bool:
        """Return False while parts are published that may belong to a hand-over. Else start the preload."""
        if self._position.parts:
            return False
        self._states.tidy(self._position.generation)
        if self._ahead is not None:
            stack.enter_context(self._ahead.run_beside(lambda: milestone_of(self._position)))
        return True

    def _look_now_and_then(self) -> None:
        # Without this check an idle output's lost end would be noticed only with the next milestone.
        now = self._now_ms()
        if not 0 <= now - self._looked_ms < LOOK_MS:
            self._looked_ms = now
            self._pipeline.settle()
            with suppress(UnavailableError):  # retried at the next check
                self._writer.require_kept(self._position)

    def _source(self, ranges: Ranges) -> Source | None:
        """Return the source of the position's generation; None if it cannot be read and another was promoted."""
        generation = self._position.generation
        try:
            return self._make_source(ranges, generation)
        except UsageError as error:  # its store has measures that the job file no longer has
            if self._handing_over.is_left_behind(generation, error):
                return None
            raise

    def _hand_over(self) -> None:
        """Publish the difference to a milestone of another generation, and continue with that one."""
        whole = milestone_of(self._position)
        with self._handing_over.attempt(self._position, whole) as attempt:
            self._position = attempt.position
            self._write_parts(attempt.source, attempt.plan, whole)
            self._pipeline.settle()

    def _advance(self, following: UnpublishedMilestones, source: Source, corrections: Corrections) -> None:
        backlog = following.backlog
        plan = backlog.plan(self._now_ms())
        if plan is not None:
            try:
                self._publish(source, plan, corrections)
                backlog.mark_applied(plan.to)
            except Overtaken as overtaken:
                self._log.warning("overtaken", token=str(plan.to.milestone.token), looked=overtaken.looked)
                backlog.mark_overtaken(plan.to, overtaken.looked)
            except (DivergenceError, UnavailableError, UsageError) as error:
                self._pipeline.settle()
                if self._unwritten or not self._handing_over.is_left_behind(self._position.generation, error):
                    raise
                following.ended = True
        elif following.succeeded:
            following.ended = True
        if not backlog.full and not following.succeeded:
            following.read(0.0 if plan else POLL_S)
        self._metrics.backlog(len(backlog))

    def _publish(self, source: Source, plan: Step | Jump, corrections: Corrections) -> None:
        if not source.reads_ahead:
            self._pipeline.settle()
        whole = milestone_of(self._position)
        if not self._position.parts:
            self._position = replace(self._position, progress=whole.changelog_cut if whole else Cut())
        ordered = self._ordered()
        self._write_parts(source, plan, whole, corrections.pieces(plan.to, ordered))
        if self._orders and ordered:
            self._pipeline.settle()
            self._orders.complete()
            self._log.info("corrected", token=str(plan.to.milestone.token), rows=len(ordered))

    def _ordered(self) -> list[RowName]:
        """Return the rows of an order. One that cannot be read must not stop the publisher."""
        try:
            return self._orders.rows() if self._orders else []
        except MachineError as error:
            self._log.error("corrections ignored", reason=str(error))
            return []

    def _write_parts(
        self, source: Source, plan: Step | Jump, whole: Milestone | None, corrections: Iterable[Piece] = ()
    ) -> None:
        """Write part by part. The position follows each part, so parts stay if compaction ends the reading.

        `corrections`: written after the source's rows, of which a restart skips those that are published.
        """
        # Closed at once if a write fails: it holds a consumer's assignment, or rows of the store.
        with closing(source.pieces(plan, self._position, whole)) as pieces:
            for part, last in split_pieces(chain(pieces, corrections), self._part_rows, self._part_bytes):
                transaction = self._writer.prepare(self._position, whole, plan, part, source.kind, last)
                self._pipeline.submit(partial(self._write, transaction))
                # If the write fails, this process ends, and the next one reads the position from the topic.
                self._position = transaction.moved

    def _write(self, transaction: Transaction) -> None:
        # Runs in the pipeline's thread.
        self._unwritten = True
        self._writer.write(transaction)
        self._unwritten = False
        self._metrics.wrote(sum(transaction.part.rows), transaction.corrections)
        if transaction.part.last:
            milestone, whole = transaction.plan.to.milestone, transaction.whole
            self._metrics.published(milestone, self._now_ms())
            self._log.info("published", token=str(milestone.token), after=whole.sequence if whole else 0)
