"""A driver that is started again with another `retention`, within one generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutwater.core.driver.epoch import Epochs
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.driver.ports import Past, Proved
from cutwater.core.driver.row_proof import Written
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.cuts import Cut, EpochPlan
from cutwater.core.protocol.records import Barrier, Signal
from support.protocol_samples import GENERATION
from unit.core.generations.test_start_state import job

DAY = 86_400_000


class World:
    """Epoch after epoch a day passes; nothing is read and nothing written."""

    def __init__(self) -> None:
        self.barriers: dict[int, Barrier] = {}

    def open(self) -> Past:
        return Past(0, dict(self.barriers))

    read_past = open

    def write(self, signal: Signal) -> None:
        assert isinstance(signal, Barrier)
        self.barriers[signal.epoch] = signal

    def begin_epoch(self, before: Barrier | None, source_cut: Cut) -> None: ...

    def prove(self, before: Barrier | None, me: Writer, written: Written, buried: Mapping[int, int]) -> Proved:
        return Proved(Cut(), ())

    def read_append_time(self, cut: Cut, written: Written) -> None: ...

    def check_start(self, *_what: object) -> None: ...

    def check_idle(self, barrier: Barrier) -> None: ...

    def has_grown(self, before: Barrier | None) -> bool:
        return False

    def newest_planned(self) -> int:
        return len(self.barriers) - 1

    newest_committed = newest_planned

    def is_committed(self, epoch: int) -> bool:
        return epoch in self.barriers

    is_planned = is_committed

    def plan(self, epoch: int) -> EpochPlan:
        return EpochPlan(Cut(), (10 + epoch) * DAY)

    def collect(self, me: Writer, before: Barrier | None) -> Mapping[int, int]:
        return {}

    def life(self, attempt: int, retention_ms: int, epochs: range) -> list[int]:
        """In days, where each epoch of a driver has the horizon."""
        one = replace(job(), retention_ms=retention_ms)
        steps = Epochs(one, GENERATION, attempt, self.open(), self, self, self, "f", lambda: 0)
        for epoch in epochs:
            steps.write(epoch, lambda _me: Written({}, {}), InputStats)
        return [self.barriers[epoch].horizon_ms // DAY for epoch in epochs]


def test_a_longer_retention_counts_for_windows_that_the_horizon_has_not_passed() -> None:
    """Views have dropped the others, the changelog may be cleared of them, and some copies never had them."""
    world = World()
    assert world.life(1, 2 * DAY, range(3)) == [8, 9, 10]
    assert world.life(2, 5 * DAY, range(3, 8)) == [10, 10, 10, 11, 12]
    assert world.life(3, 1 * DAY, range(8, 10)) == [17, 18]


def test_an_epoch_that_is_written_again_stands_behind_the_one_before_it() -> None:
    """What its first try had told was never committed: a shorter retention there binds nobody."""
    world = World()
    world.life(1, 2 * DAY, range(1))
    assert world.life(2, 0, range(1, 2)) == [11]
    assert world.life(3, 2 * DAY, range(1, 2)) == [9]
