"""The start of an attempt: what is compared, fenced, compared again and said, in this order, and what stops it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.core.driver.attempt_start import TakeOver
from cutwater.core.driver.checkpoint_check import NewestEpochs
from cutwater.core.driver.ports import Past
from cutwater.core.errors import DivergenceError
from cutwater.core.protocol.cuts import Cut, EpochPlan
from cutwater.core.protocol.records import Milestone, Start
from support.protocol_samples import GENERATION, JOB, barrier, milestone, source_cut

NOW = 77


@dataclass
class Driver:
    """A checkpoint, a barriers topic and a changelog, and what is asked of them."""

    planned: int = 4
    committed: int = 4
    fenced: Past = field(default_factory=lambda: Past(2, {3: barrier(3), 4: barrier(4)}))
    """What stands there once older drivers are fenced; `past` before."""
    past: Past | None = None
    newest: Milestone | None = field(default_factory=lambda: milestone(4))
    cut: Cut | None = None
    """Another plan of the newest barrier's epoch."""
    foreign: bool = False
    done: list[Any] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)
    """What the account of the start was given, each time that it compared."""

    def run(self) -> tuple[int, Past]:
        checkpoint = SimpleNamespace(
            newest_planned=lambda: self.planned,
            newest_committed=lambda: self.committed,
            is_planned=lambda epoch: epoch <= self.planned,
            plan=lambda epoch: EpochPlan(self.cut or source_cut(epoch), 0),
        )
        log = SimpleNamespace(read_past=self._read_past, open=self._open, write=self._write)
        rows: Any = SimpleNamespace(check_start=self._check_start)
        found = lambda past, standing: self.done.append(standing)  # noqa: E731
        account: Any = SimpleNamespace(
            step=lambda name: nullcontext(),
            record_facts=lambda **facts: self.told.append(facts),
            record_decision=lambda text, number: self.done.append((text, number)),
        )
        take = TakeOver(
            JOB, GENERATION, checkpoint, log, rows, lambda: self.newest, found, self.done.append, account  # type: ignore[arg-type]
        )  # fmt: skip
        return take.run(lambda: NOW)

    def _read_past(self) -> Past:
        self.done.append("looked")
        return self.past or self.fenced

    def _open(self) -> Past:
        self.done.append("fenced")
        return self.fenced

    def _write(self, signal: Any) -> None:
        self.done.append(signal)

    def _check_start(self, *asked: Any) -> None:
        self.done.append(asked)
        if self.foreign:
            raise DivergenceError("somebody else's rows")


def test_the_steps_of_a_start() -> None:
    """Compare, fence, compare again, look for foreign rows above the barrier of the epoch before, say so."""
    one, standing = Driver(), NewestEpochs(4, 4, 4, 4)
    assert one.run() == (3, one.fenced)
    assert one.done == [
        "looked",
        standing,
        "fenced",
        standing,
        (barrier(4), GENERATION, 5, 3),
        "start-unwritten",
        Start(JOB, GENERATION, 3, NOW),
        "start-written",
        ("run epoch 5 as attempt 3", 3),
    ]
    assert one.told == [vars(standing), vars(standing)]


def test_an_epoch_that_was_planned_is_run_again() -> None:
    """Its own barrier is no baseline: what stands above the one before is looked at."""
    one = Driver(committed=3, newest=milestone(3))
    one.run()
    assert (barrier(3), GENERATION, 4, 3) in one.done
    assert one.done[-1] == ("run epoch 4 again as attempt 3", 3)


def test_the_first_start_finds_nothing() -> None:
    one = Driver(-1, -1, Past(0, {}), newest=None)
    assert one.run() == (1, Past(0, {}))
    assert (None, GENERATION, 0, 1) in one.done
    assert NewestEpochs(-1, -1, -1, -1) in one.done


def test_a_checkpoint_of_before_fences_nobody() -> None:
    """A driver with the wrong checkpoint must not end a healthy one."""
    one = Driver(planned=3, committed=3, newest=milestone(3))
    with pytest.raises(DivergenceError, match="ends at epoch 3, but the stream has barrier 4"):
        one.run()
    assert one.done == ["looked", NewestEpochs(3, 3, 4, 3)]


def test_what_the_fenced_driver_wrote_last_is_compared_too() -> None:
    """It was healthy when this one looked first, and has gone on since."""
    one = Driver(past=Past(2, {3: barrier(3), 4: barrier(4)}), fenced=Past(2, {4: barrier(4), 5: barrier(5)}))
    with pytest.raises(DivergenceError, match="barrier 5"):
        one.run()
    assert "fenced" in one.done
    assert not [said for said in one.done if isinstance(said, Start)]


def test_other_events_in_the_plan_than_in_the_barrier_are_refused() -> None:
    one = Driver(cut=source_cut(9))
    with pytest.raises(DivergenceError, match="epoch 4 reads other events in the checkpoint than in its barrier"):
        one.run()


def test_foreign_rows_are_found_before_anything_is_said() -> None:
    one = Driver(foreign=True)
    with pytest.raises(DivergenceError, match="somebody else's rows"):
        one.run()
    assert not [said for said in one.done if isinstance(said, Start)]


def test_a_checkpoint_that_is_ahead_of_the_stream_is_refused_once_nobody_else_writes() -> None:
    """Before, an older driver may be about to write the barrier that is missing; behind the fence it cannot."""
    one = Driver(planned=5, committed=5)
    with pytest.raises(DivergenceError, match="has committed 5, but the newest barrier is 4"):
        one.run()
    assert "fenced" in one.done
    assert not [said for said in one.done if isinstance(said, Start)]
