"""What a model of drivers leaves on the barriers topic, through the pure core: properties of `step` and `resume`.

The whole protocol is simulated in tests/simulation. The seed is in a test's name: `-k 'seed-17-'` repeats one.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.commit import SignalState, resume, step
from cutwater.core.protocol.records import Barrier, Heartbeat, Milestone, Signal, Start, StreamRecord
from support.driver_model import CRASH_POINTS, DriverModel, History
from support.protocol_samples import GENERATION, JOB, hash_of

SEEDS = range(100)
MAX_RESTARTS = 50
Log = list[tuple[int, Signal]]
seeded = pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}-")


class Signaller:
    """commit-signal as a process: it reads, writes in one transaction with its position, and may die."""

    def __init__(self, log: Log, random: Random, crash_chance: float) -> None:
        self._log = log
        self._random = random
        self._crash_chance = crash_chance
        self._now_ms = 50_000
        self.stream: list[StreamRecord] = []
        self.crashes: Counter[str] = Counter()

    def run(self) -> list[StreamRecord]:
        """Lives as often as it needs to; the last life does not crash."""
        for _ in range(MAX_RESTARTS):
            if self._live(self._crash_chance):
                return self.stream
        self._live(0.0)
        return self.stream

    def _live(self, crash_chance: float) -> bool:
        """One life: resume, read from the position; True when it came to the end of the topic."""
        state = self._resume()
        for offset, signal in self._log:
            if offset < state.position:
                continue
            self._now_ms += 1
            state, records = step(state, signal, offset, self._now_ms, hash_of)
            if records and self._random.random() < crash_chance:
                self.crashes["before the write"] += 1
                return False
            self.stream += records  # one transaction: all of it, with the position in it, or nothing
            if self._random.random() < crash_chance:
                self.crashes["after the write" if records else "between writes"] += 1
                return False
        return True

    def _resume(self) -> SignalState:
        """From the shortest tail that holds a milestone: the service reads no more than that."""
        places = [number for number, one in enumerate(self.stream) if isinstance(one, Milestone)]
        tail = self.stream[places[-1] :] if places else self.stream
        return resume(JOB, GENERATION, tail, hash_of)


def history_of(seed: int) -> History:
    return DriverModel(Random(seed)).run()


def milestones(stream: list[StreamRecord]) -> list[Milestone]:
    return [one for one in stream if isinstance(one, Milestone)]


def facts(stream: list[StreamRecord]) -> list[tuple[int, int, int]]:
    """What a milestone says of its epoch, without the time and place of its writing."""
    return [(one.sequence, one.epoch, one.attempt) for one in milestones(stream)]


@seeded
def test_each_committed_epoch_is_one_milestone_of_the_attempt_that_was_committed(seed: int) -> None:
    """Contiguous, chained, each epoch once, with what the committed attempt's barrier said (I3, I4)."""
    history = history_of(seed)
    stream = Signaller(history.log, Random(seed), crash_chance=0.15).run()
    found = milestones(stream)
    assert [one.epoch for one in found] == list(range(len(history.commits)))
    assert [one.sequence for one in found] == list(range(1, len(found) + 1))
    assert list(find_chain_faults((one, repr(one).encode()) for one in found)) == []
    for one in found:
        barrier = history.commits[one.epoch]
        assert {name: getattr(one, name) for name in vars(barrier)} == vars(barrier)


@seeded
def test_crashes_of_the_signaller_leave_no_trace(seed: int) -> None:
    """Dying anywhere and resuming writes the records that an unbroken run writes, heartbeats included."""
    log = history_of(seed).log
    unbroken = Signaller(log, Random(seed), crash_chance=0.0).run()
    broken = Signaller(log, Random(seed), crash_chance=0.15).run()
    assert facts(broken) == facts(unbroken)
    assert [one.barriers_position for one in milestones(broken)] == [
        one.barriers_position for one in milestones(unbroken)
    ]
    beats = [[one for one in stream if isinstance(one, Heartbeat)] for stream in (broken, unbroken)]
    assert beats[0] == beats[1]


@seeded
def test_hints_change_nothing_but_the_time(seed: int) -> None:
    """Without any hint the same milestones come; at most the newest waits, for a heartbeat or barrier N+1."""
    history = history_of(seed)
    with_hints = Signaller(history.log, Random(seed), crash_chance=0.15).run()
    without = Signaller(history.without_hints(), Random(seed), crash_chance=0.15).run()
    assert facts(without) == facts(with_hints)[: len(facts(without))]
    assert len(facts(with_hints)) - len(facts(without)) <= 1


@seeded
def test_milestones_follow_what_the_topic_confirms(seed: int) -> None:
    """After each record: not one milestone that the commit log is not known to hold, and none held back."""
    state = SignalState(JOB, GENERATION)
    confirmed = -1
    for offset, signal in history_of(seed).log:
        if signal.generation == GENERATION and not isinstance(signal, Start):
            confirmed = max(confirmed, signal.epoch - isinstance(signal, Barrier))
        state, _ = step(state, signal, offset, 0, hash_of)
        assert state.last_epoch == confirmed


def test_the_faults_happened() -> None:
    """A simulation whose faults never fire proves nothing: over all seeds, each fired often."""
    faults: Counter[str] = Counter()
    for seed in SEEDS:
        history = history_of(seed)
        signaller = Signaller(history.log, Random(seed), crash_chance=0.15)
        signaller.run()
        faults += history.faults + signaller.crashes
    expected = {f"crash {point}" for point in CRASH_POINTS} | {"crash after the start", "foreign record"}
    expected |= {"hint lost", "hint sent", "hint doubled"}
    expected |= {"before the write", "after the write", "between writes"}
    assert {name for name, times in faults.items() if times >= 10} == expected
