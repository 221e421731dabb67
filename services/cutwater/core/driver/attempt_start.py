"""The start of an attempt: compare, fence, compare again, write the start."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.core.driver.checkpoint_check import NONE, NewestEpochs, require_match
from cutwater.core.driver.ports import Barriers, Checkpoint, Past, Reached, Rows, nowhere
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone, Start
from cutwater.core.protocol.recovery_log import StartRecord, unrecorded


class TakeOver:
    """The start of an attempt; raises CutwaterError before anything is written if it is not allowed."""

    def __init__(
        self,
        job: str,
        generation: Generation,
        checkpoint: Checkpoint,
        barriers: Barriers,
        rows: Rows,
        newest_milestone: Callable[[], Milestone | None],
        found: Callable[[Past, NewestEpochs], None] = lambda _past, _standing: None,
        reached: Reached = nowhere,
        account: StartRecord | None = None,
    ) -> None:
        self._job = job
        self._generation = generation
        self._checkpoint = checkpoint
        self._barriers = barriers
        self._rows = rows
        self._newest_milestone = newest_milestone
        self._found = found
        self._reached = reached
        self._account = account or unrecorded()

    def run(self, now_ms: Callable[[], int]) -> tuple[int, Past]:
        """Fence older drivers and write the start; return the attempt's number and the past."""
        # Before fencing: a driver with the wrong checkpoint must not end a healthy one.
        start = self._account
        with start.step("comparing checkpoint and stream"):
            start.record_facts(**vars(self._compare(self._barriers.read_past(), alone=False)))
        with start.step("fencing older drivers"):
            past = self._barriers.open()
        number = past.attempt + 1
        with start.step("comparing again, alone"):
            standing = self._compare(past, alone=True)
            start.record_facts(**vars(standing))
        with start.step("looking for foreign rows"):
            before = past.newest_before(standing.next_epoch)
            self._rows.check_start(before, self._generation, standing.next_epoch, number)
        self._reached("start-unwritten")
        self._barriers.write(Start(self._job, self._generation, number, now_ms()))
        self._reached("start-written")
        again = " again" if standing.planned == standing.next_epoch else ""
        start.record_decision(f"run epoch {standing.next_epoch}{again} as attempt {number}", number)
        return number, past

    def _compare(self, past: Past, alone: bool) -> NewestEpochs:
        """Return the epochs of checkpoint and stream; raise DivergenceError if they contradict each other."""
        newest, milestone = past.newest, self._newest_milestone()
        standing = NewestEpochs(
            planned=self._checkpoint.newest_planned(),
            committed=self._checkpoint.newest_committed(),
            barrier=newest.epoch if newest else NONE,
            milestone=milestone.epoch if milestone else NONE,
        )
        self._found(past, standing)
        has_plan = newest is not None and self._checkpoint.is_planned(newest.epoch)
        planned = self._checkpoint.plan(newest.epoch).source_cut if newest and has_plan else None
        require_match(self._job, standing, planned, newest.source_cut if newest else None, alone)
        return standing
