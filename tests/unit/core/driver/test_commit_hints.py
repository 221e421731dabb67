"""What a driver says beside its epochs: when it hints, when it beats, and when it says nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.core.driver.commit_hints import HEARTBEAT_MS_MAX, CommitHints
from cutwater.core.errors import DivergenceError
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.records import Committed, Heartbeat, Signal
from support.protocol_samples import barrier, source_cut

BEAT_MS = 2_000
ATTEMPT = 4


@dataclass
class Driver:
    """The ports of one, and what came of them."""

    heartbeat_ms: int = BEAT_MS
    hints: bool = True
    committed: int = -1
    now_ms: int = 100_000
    more: int = 0
    """So many events stand behind the source cut."""
    behind: set[int] = field(default_factory=lambda: {0, 1})
    """In these partitions."""
    looks_for_ms: int = 0
    idle: bool = True
    locked: bool = False
    released: int = 0
    newest: Any = None
    said: list[Signal] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.newest = barrier(0)
        self.announcing = CommitHints(
            self,  # type: ignore[arg-type]
            self,
            ATTEMPT,
            SimpleNamespace(write=self.said.append),  # type: ignore[arg-type]
            SimpleNamespace(check_idle=self._check_idle),  # type: ignore[arg-type]
            SimpleNamespace(is_committed=lambda epoch: epoch <= self.committed),  # type: ignore[arg-type]
            self._source_end,
            self.heartbeat_ms,
            self.hints,
            lambda: self.now_ms,
            self.reached.append,
        )

    def acquire(self, blocking: bool = True) -> bool:
        assert not blocking, "an epoch may take minutes"
        return not self.locked

    def release(self) -> None:
        self.released += 1

    def _source_end(self, place: TopicPartition) -> int:
        self.now_ms += self.looks_for_ms
        return source_cut(0).offset(place) + self.more * (place.partition in self.behind)

    def _check_idle(self, _barrier: object) -> None:
        if not self.idle:
            raise DivergenceError("somebody writes")

    def tick(self, after_ms: int = 0) -> list[Signal]:
        """What it says then."""
        self.now_ms += after_ms
        before = len(self.said)
        self.announcing.tick()
        return self.said[before:]


def test_before_the_first_barrier_and_its_commit_nothing_is_said() -> None:
    one = Driver()
    assert one.tick() == []
    one.newest = None
    one.committed = 0
    assert one.tick() == []


def test_a_commit_is_hinted_at_once_and_once() -> None:
    """With the attempt and the time; and told to whoever asks for the steps."""
    one = Driver(committed=0)
    (said,) = one.tick()
    assert isinstance(said, Committed)
    assert (said.epoch, said.attempt, said.at_ms) == (0, ATTEMPT, one.now_ms)
    assert one.tick() == []
    assert one.reached == ["commit-seen", "hint-written"]
    one.newest, one.committed = barrier(1), 1
    assert [said.epoch for said in one.tick() if isinstance(said, Committed)] == [1]


def test_without_hints_it_beats_all_the_same() -> None:
    one = Driver(committed=0, hints=False)
    assert one.tick() == []
    assert one.reached == ["commit-seen"]
    assert [type(said) for said in one.tick(BEAT_MS)] == [Heartbeat]


def test_pauses_double_up_to_a_minute_and_begin_anew_with_an_epoch() -> None:
    """A job that idles for weeks shall not fill the topics."""
    one = Driver(committed=0)
    one.tick()
    pauses, pause_ms = [], BEAT_MS
    while len(pauses) < 7:
        assert one.tick(pause_ms - 1) == [], pause_ms
        assert [type(said) for said in one.tick(1)] == [Heartbeat]
        pauses.append(pause_ms)
        pause_ms = min(2 * pause_ms, HEARTBEAT_MS_MAX)
    assert pauses == [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    one.newest, one.committed = barrier(1), 1
    one.tick()
    assert one.tick(BEAT_MS - 1) == []
    one.more = 90  # the cut of the next epoch
    assert len(one.tick(1)) == 1


def test_a_pause_that_is_set_longer_than_a_minute_stays() -> None:
    one = Driver(committed=0, heartbeat_ms=2 * HEARTBEAT_MS_MAX)
    one.tick()
    assert len(one.tick(2 * HEARTBEAT_MS_MAX)) == 1
    assert one.tick(2 * HEARTBEAT_MS_MAX - 1) == []
    assert len(one.tick(1)) == 1


def test_a_clock_that_jumped_back_does_not_silence_the_job() -> None:
    one = Driver(committed=0)
    one.tick()
    assert [type(said) for said in one.tick(-50_000)] == [Heartbeat]


def test_a_heartbeat_is_of_the_time_before_it_looked() -> None:
    """What has come while it looked is not known."""
    one = Driver(committed=0)
    one.tick()
    one.looks_for_ms = 7_000
    (said,) = one.tick(BEAT_MS)
    assert isinstance(said, Heartbeat)
    assert (said.epoch, said.attempt, said.at_ms) == (0, ATTEMPT, 100_000 + BEAT_MS)
    assert one.released == 1


def test_whoever_is_not_idle_says_nothing() -> None:
    """Events wait, an epoch is being written, or one has been since it looked; the lock is given back."""
    one = Driver(committed=0)
    one.tick()
    one.more = 1
    assert one.tick(BEAT_MS) == []
    assert one.released == 1
    one.behind = {1}
    assert one.tick(2 * BEAT_MS) == [], "one partition is enough"
    assert one.released == 2
    one.more, one.locked = 0, True
    assert one.tick(4 * BEAT_MS) == []
    assert one.released == 2
    one.locked = False
    assert one.tick(8 * BEAT_MS - 1) == [], "a try counts as one"
    assert len(one.tick(1)) == 1


def test_an_epoch_that_ended_meanwhile_is_not_called_idle() -> None:
    one = Driver(committed=0)
    one.tick()
    then = one.newest

    class Moved:
        """Its first answer is the barrier that it looked at, its second the next one."""

        def __init__(self) -> None:
            self.answers = [then, barrier(1)]

        @property
        def newest(self) -> Any:
            return self.answers.pop(0)

    one.announcing._epochs = Moved()  # type: ignore[assignment]
    assert one.tick(BEAT_MS) == []


def test_foreign_rows_end_the_driver_and_give_the_lock_back() -> None:
    one = Driver(committed=0, idle=False)
    one.tick()
    with pytest.raises(DivergenceError, match="somebody writes"):
        one.tick(BEAT_MS)
    assert one.released == 1
    assert [type(said) for said in one.said] == [Committed]
