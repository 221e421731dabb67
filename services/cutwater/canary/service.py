"""The comparing process of one canary. The service's composition root.

It keeps nothing that it cannot find again: the pairs follow from the two logs, the rows from the changelogs,
and how far it was from its own last record on the candidates topic. So it may be killed at any point and
started again.

    CUTWATER_GENERATION=g2-local-5f0c21aa python -m cutwater.canary JOBFILE
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.startup_wait import await_brokers
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.candidates import candidates, parent_of, promoted
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.canary.compared_state import ComparedState
from cutwater.canary.decision import GateDecision
from cutwater.canary.feeds import CandidateFeed, LiveFeed
from cutwater.canary.row_differences import Differences, StateComparison
from cutwater.canary.way_back import WayBack
from cutwater.core.canary.gate import GateVerdict, judge
from cutwater.core.canary.milestone_pairs import Pair, Pairing
from cutwater.core.canary.row_comparison import CanaryRows
from cutwater.core.errors import FencedError, NotYetError, UnavailableError, UsageError
from cutwater.core.generations.candidates import Candidate
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Canary, Comparison, Milestone
from cutwater.operations.service_main import run_service
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.store import key_layout

POLL_S = 0.2
RECORD_S = 5.0
"""Between two records about a canary whose rows are equal. A difference is recorded at once."""
WAIT_S = 2.0
"""Between two looks whether a decision can be carried out."""
READ_S = 60.0
"""The most for reading the candidates topic at the start."""
FOLDER = "canary"


class CanaryService:
    """Compares one candidate with the generation that it started from, and carries its gate's decision out."""

    def __init__(self, job: Job, settings: Settings, log: Any) -> None:
        self._job, self._settings, self._log = job, settings, log
        self._generation, self._cluster = settings.generation, settings.cluster
        self._stopped = threading.Event()
        self.decision = GateDecision(job, settings, log, self._stopped.wait)

    def stop(self, *_signal: object) -> None:
        self._stopped.set()

    def run(self) -> None:
        """Compare until the gate has decided, or somebody else has. Raises CutwaterError to end the process."""
        await_brokers(self._cluster, self._settings.wait_ms / 1000, self._log)
        writer = TransactionalWriter(self._cluster, topics.canary_id(self._job.name, self._generation))
        writer.initialise()  # an older process of this canary writes no more from here on
        with ExitStack() as stack:
            feed = stack.enter_context(closing(CandidateFeed(self._cluster, self._job.name, self._generation)))
            try:
                compared = _Comparing(self, feed, writer, stack).run()
            except Stopped:
                return
        if compared is not None and compared.canary is not None:
            parent = parent_of(compared.claim)
            live = GenerationJobs.on(self._cluster, self._job).at(parent)
            kept = WayBack(live, self._settings, self._stopped, self.decision.audited, self._log)
            kept.keep(self._generation, parent.generation, compared.canary.keep_ms)

    @property
    def stopped(self) -> threading.Event:
        return self._stopped

    @property
    def context(self) -> tuple[Job, Settings, Any]:
        return self._job, self._settings, self._log


class _Comparing:
    """One run of the process. `stack` closes what it opens."""

    def __init__(
        self, service: CanaryService, feed: CandidateFeed, writer: TransactionalWriter, stack: ExitStack
    ) -> None:
        self._service, self._feed, self._writer, self._stack = service, feed, writer, stack
        self._job, self._settings, self._log = service.context
        self._cluster, self._stopped = self._settings.cluster, service.stopped
        self._pairing = Pairing()
        self._newest: Comparison | None = None
        self._recorded: Comparison | None = None
        self._recorded_s = float("-inf")
        self._overtaken = 0
        """Pairs that could not be read any more."""
        self._dropped = False

    def run(self) -> Candidate | None:
        """Compare until nothing is left to compare, and return what is known of the candidate then; None if this
        process is stopped before."""
        entries = []
        deadline_s = time.monotonic() + READ_S
        while not self._feed.is_read:
            entries += list(self._feed.poll(POLL_S))
            if self._stopped.is_set():
                return None
            if time.monotonic() > deadline_s:
                raise UnavailableError(
                    f"the candidates topic of {self._job.name} is not read within {READ_S:.0f} s"
                )
        candidate = self._feed.candidate
        self._gate(candidate)
        self._newest = self._recorded = candidate.comparison
        if self._decided():
            return self._outcome()
        parent = parent_of(candidate.claim)
        live = self._stack.enter_context(closing(LiveFeed(self._cluster, self._job.name, parent)))
        comparison = self._comparison(candidate, parent)
        for entry in entries:
            self._pairing.add_candidate(entry)
        self._follow(live, parent, comparison)
        return None if self._stopped.is_set() else self._outcome()

    def _outcome(self) -> Candidate | None:
        """Return the candidate; None if the gate has dropped it, whether that is read yet or not."""
        return None if self._dropped else self._feed.candidate

    def _gate(self, candidate: Candidate) -> Canary:
        if candidate.canary is None:
            raise UsageError(
                f"{candidate.claim.generation} is no canary: 'cutwater canary start' starts one that is compared"
            )
        return candidate.canary

    def _comparison(self, candidate: Candidate, parent: Milestone) -> StateComparison:
        jobs = GenerationJobs.on(self._cluster, self._job)
        live, theirs = jobs.at(parent), jobs.of_candidate(candidate)
        rows = CanaryRows(live, theirs, self._gate(candidate).tolerance)
        folder = self._settings.data_dir / FOLDER / self._job.name / str(candidate.claim.generation)
        layout = key_layout.segment_ms(live)
        more = (layout, self._settings, now_ms, self._stopped.is_set)
        states = [
            self._stack.enter_context(closing(ComparedState(self._cluster, job, of, folder / name, *more)))
            for job, of, name in (
                (live, parent.generation, "live"),
                (theirs, candidate.claim.generation, "candidate"),
            )
        ]
        self._log.info("comparing", generation=str(candidate.claim.generation), measures=rows.measures.shared)
        late_until_ms = self._newest.late_until_ms if self._newest else 0
        return StateComparison(states[0], states[1], rows, late_until_ms)

    def _follow(self, live: LiveFeed, parent: Milestone, comparison: StateComparison) -> None:
        """Compare pair by pair, until the candidate is promoted or given up."""
        while not self._stopped.is_set():
            for entry in self._feed.poll(0):
                self._pairing.add_candidate(entry)
            found = live.poll(POLL_S)
            for entry in found.entries:
                if entry.milestone.sequence == parent.sequence:
                    self._pairing.add_parent(entry)
                else:
                    self._pairing.add_live(entry)
            while not self._stopped.is_set() and (pair := self._pairing.next()) is not None:
                self._compare(pair, comparison)
                if self._decided():
                    return
            if self._newest != self._recorded and time.monotonic() > self._recorded_s + RECORD_S:
                self._record()
            if self._ended(found.successor):
                return

    def _compare(self, pair: Pair, comparison: StateComparison) -> None:
        """Compare a pair; one that an earlier process has counted is only read again."""
        known, one = self._newest, pair.candidate.milestone
        if known is not None and one.epoch < known.epoch:
            return  # its rows are read with the next pair
        again = known is not None and one.epoch == known.epoch
        try:
            found = comparison.compare(pair)
        except Overtaken:
            self._log.warning("compaction has overtaken a pair", epoch=one.epoch)
            self._overtaken += 1
            return
        reach("canary-compared")
        if again:
            return
        self._newest = self._comparison_after(pair, found)
        changed = self._recorded is None or (self._recorded.differing, self._recorded.late) != (
            found.differing,
            found.late,
        )
        if changed or self._newest.verdict:
            self._record()

    def _comparison_after(self, pair: Pair, found: Differences) -> Comparison:
        before, gate, counts = self._newest, self._gate(self._feed.candidate), self._pairing.counts
        compared = (before.compared if before else 0) + 1
        verdict, reason = judge(gate, compared, found.differing, found.first)
        return Comparison(
            job=self._job.name,
            generation=gate.generation,
            epoch=pair.candidate.milestone.epoch,
            number=pair.candidate.milestone.sequence,
            sequence=pair.live.milestone.sequence,
            compared=compared,
            unpaired=counts.unpaired + self._overtaken,
            passed=counts.passed,
            rows=(before.rows if before else 0) + found.rows,
            differing=found.differing,
            late=found.late,
            late_until_ms=found.late_until_ms,
            first=found.first,
            verdict=verdict.value,
            reason=reason,
            at_ms=now_ms(),
        )

    def _record(self) -> None:
        if self._newest is None:
            return
        made = replace(self._newest, at_ms=now_ms())
        self._writer.write(topics.candidates(self._job.name), [protocol_records.encode(made)])
        reach("canary-recorded")
        self._newest = self._recorded = made
        self._recorded_s = time.monotonic()
        self._log.info(
            "compared",
            pairs=made.compared,
            epoch=made.epoch,
            sequence=made.sequence,
            differing=made.differing,
            late=made.late,
            unpaired=made.unpaired,
        )

    def _decided(self) -> bool:
        """Carry a verdict out, if there is one; return whether nothing is left to compare."""
        candidate = self._feed.candidate
        if not candidate.open or candidate.promoting:
            return self._ended(None)
        if self._newest is None or not self._newest.verdict:
            return False
        return self._carry_out(self._newest)

    def _carry_out(self, found: Comparison) -> bool:
        """Carry a verdict out, once it may be: no other process asks for the promotion when a hold has ended."""
        said = ""
        while not self._stopped.is_set():
            for _ in self._feed.poll(0):
                pass  # a decided gate compares no more
            candidate = self._feed.candidate
            if not candidate.open or candidate.promoting:
                return self._ended(None)
            try:
                waits = self._service.decision.reason_to_wait(found)
                if not waits and self._act(found):
                    return True
            except UsageError:
                if self._is_past():
                    return True
                raise
            if waits and waits != said:
                self._log.info("the gate's decision waits", reason=waits)
            said = waits
            self._stopped.wait(WAIT_S)
        return True

    def _is_past(self) -> bool:
        """Return whether the candidate is given up. Raises FencedError if another generation was promoted."""
        candidate = candidates(self._cluster, self._job.name).require(self._feed.candidate.claim.generation)
        last = promoted(self._cluster, self._job.name)
        if last is not None and last.generation.number <= parent_of(candidate.claim).generation.number:
            last = None
        return self._ended(last, candidate)

    def _act(self, found: Comparison) -> bool:
        """Return False if it has to be tried again: it was held, or its promotion was requested, meanwhile."""
        try:
            done = self._service.decision.carry_out(found)
        except NotYetError:
            return False
        reach("canary-decided")
        self._dropped = done and found.verdict == GateVerdict.DROP
        return done

    def _ended(self, successor: Milestone | None, known: Candidate | None = None) -> bool:
        """Return whether the candidate is promoted, about to be, or given up. Raises FencedError if another
        generation was promoted."""
        candidate = known or self._feed.candidate
        if not candidate.open:
            self._log.info("given up", reason=candidate.withdrawn)
            return True
        if candidate.promoting:
            self._log.info("its promotion is requested")
            return True
        if successor is not None and successor.generation != candidate.claim.generation:
            raise FencedError(f"{successor.generation} was promoted: {candidate.claim.generation} is past")
        return successor is not None


def main() -> int:
    return run_service("canary", CanaryService)


if __name__ == "__main__":
    sys.exit(main())
