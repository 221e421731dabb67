"""The promoted driver waits for a slower candidate: it converges on shared cores, within a bound of staleness."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.pacing.live_yield import PATIENCE_S, LiveYield, Progress

STEP_S = 0.05


COMES, BEHIND_S, MOST = 1_000.0, 60.0, 50_000.0


@dataclass
class Process:
    """A driver of the model: it plans an epoch of what came, and works at its cost."""

    fixed_s: float
    event_s: float
    read: float = 0.0
    planned: float = 0.0
    left_s: float = 0.0
    """Work of the epoch; 0 between two."""

    def begin(self) -> None:
        self.left_s = self.fixed_s + self.event_s * (self.planned - self.read)

    def work(self, seconds: float) -> bool:
        """Return whether the epoch has ended."""
        if not self.left_s:
            return False
        self.left_s = max(self.left_s - seconds, 0.0)
        return not self.left_s


class SharedCore:
    """Two drivers on one core. Alone the candidate reads more than what comes, and beside the promoted one less.

    It is a minute behind, and promoted when it reaches the promoted driver's newest epoch.
    """

    def __init__(self, seed: int, yield_s: float) -> None:
        rng = random.Random(seed)
        begun = BEHIND_S * COMES
        self.live = Process(rng.uniform(0.3, 0.5), rng.uniform(2e-4, 3e-4), read=begun, planned=begun)
        self.candidate = Process(rng.uniform(0.6, 0.9), rng.uniform(5.2e-4, 6e-4))
        self._yield_s, self._wait_until_s = yield_s, 0.0
        self._decision = LiveYield()
        self._seen = list[tuple[float, float]]()
        self._now_s = BEHIND_S
        self.longest_s = self._began_s = 0.0
        """The longest epoch of the promoted driver."""
        self.stalest_s = 0.0
        """The longest time from an event's arrival to the end of the promoted driver's epoch with it."""

    def run(self, seconds: float) -> float | None:
        """Return when the candidate is promoted; None if it is not."""
        while self._now_s < BEHIND_S + seconds:
            self._step()
            if self.candidate.read >= self.live.read > BEHIND_S * COMES:
                return self._now_s - BEHIND_S
        return None

    def _step(self) -> None:
        if not self.live.left_s:
            self._plan_live()
        if not self.candidate.left_s:
            self.candidate.planned = min(COMES * self._now_s, self.candidate.read + MOST)
            self.candidate.begin()
        part_s = STEP_S / 2 if self.live.left_s else STEP_S
        self._now_s += STEP_S
        if self.live.work(part_s):
            self.longest_s = max(self.longest_s, self._now_s - self._began_s)
            self.stalest_s = max(self.stalest_s, self._now_s - self.live.read / COMES)
            self.live.read = self.live.planned
        if self.candidate.work(part_s):
            self.candidate.read = self.candidate.planned
            self._seen = [*self._seen[-1:], (self._now_s, self.candidate.read)]

    def _plan_live(self) -> None:
        """Spark plans an epoch first, and the wait is before it runs."""
        if not self._wait_until_s:
            self.live.planned = COMES * self._now_s
            self._wait_until_s = self._now_s + self._yield_s
        left = max(int(self.live.read - self.candidate.read), 0)
        found = Progress(left, self._rate(), COMES, promoting=True)
        if self._now_s >= self._wait_until_s or not self._decision.wants_wait(found, self._now_s):
            self._wait_until_s, self._began_s = 0.0, self._now_s
            self.live.begin()

    def _rate(self) -> float | None:
        if len(self._seen) < 2:
            return None
        (first_s, first), (last_s, last) = self._seen
        return (last - first) / (last_s - first_s)


@pytest.mark.parametrize("seed", range(20))
def test_a_slower_candidate_converges_and_readers_wait_no_longer_than_the_bound(seed: int) -> None:
    """Without waits it falls behind for ever. With them it is promoted, and what readers wait for is two waits and
    two epochs, as `yield_s` takes it to be."""
    without, with_it = SharedCore(seed, 0.0), SharedCore(seed, 3.0)
    assert without.run(1_500) is None
    assert without.live.read - without.candidate.read > BEHIND_S * COMES
    assert with_it.run(1_500) is not None
    assert with_it.longest_s < 10
    assert with_it.stalest_s <= 2 * (3.0 + with_it.longest_s + STEP_S)


PROGRESS = st.builds(
    Progress,
    st.integers(0, 100_000),
    st.none() | st.floats(0, 5_000),
    st.floats(0, 2_000),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(st.tuples(st.none() | PROGRESS, st.floats(0, 60)), max_size=60))
def test_nothing_is_waited_for_without_need(steps: list[tuple[Progress | None, float]]) -> None:
    """Not without a candidate, nor for one that has arrived, nor for one whose rate is bounded by hand."""
    decision, now_s = LiveYield(), 0.0
    for found, later_s in steps:
        now_s += later_s
        if decision.wants_wait(found, now_s):
            assert found is not None
            assert found.events_left > 0
            assert not found.limited or found.promoting


def test_one_that_catches_up_by_itself_is_not_helped_until_it_is_near_and_wanted() -> None:
    decision = LiveYield()
    assert not decision.wants_wait(Progress(1_000_000, 1_200, 1_000, promoting=True), 0)
    assert not decision.wants_wait(Progress(9_000, 1_000, 1_000, promoting=False), 1)
    assert decision.wants_wait(Progress(9_000, 1_000, 1_000, promoting=True), 2)
    assert decision.wants_wait(Progress(1_000_000, 900, 1_000, promoting=False), 3)
    assert decision.wants_wait(Progress(900_000, 1_200, 1_000, promoting=False), 4), "it is helped until the end"
    assert not decision.wants_wait(Progress(0, 1_200, 1_000, promoting=True), 5)


def test_waits_that_bring_it_no_nearer_end() -> None:
    """It may be dead, or too slow at any rate."""
    decision, slow = LiveYield(), Progress(50_000, 500, 1_000, promoting=False)
    assert decision.wants_wait(slow, 0)
    assert decision.wants_wait(slow._replace(events_left=49_000), 0.9 * PATIENCE_S)
    assert decision.wants_wait(slow._replace(events_left=49_000), 1.8 * PATIENCE_S)
    assert not decision.wants_wait(slow._replace(events_left=48_900), 2 * PATIENCE_S)
    assert not decision.wants_wait(slow, 2 * PATIENCE_S + 1)
