"""An epoch asks the brokers' clock before its barrier: no milestone may come of a clock that is hours off (A6)."""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.core.driver.clock_check import LOOK_MS
from cutwater.core.driver.row_proof import Written
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.cuts import Cut
from unit.core.driver import test_epoch
from unit.core.driver.test_epoch import PROVED, WRITTEN, Driver

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
TOPIC = "rows/1"


class Clocks:
    """A driver, and the append times that a broker tells it of its rows."""

    def __init__(self, ahead_ms: int = 0, tells: bool = True) -> None:
        self.driver = Driver(now_ms=NOW_MS, lists=True)
        self.ahead_ms, self._tells = ahead_ms, tells
        self.asked: list[tuple[Cut, Written]] = []
        self.driver.epochs._rows.read_append_time = self._read_append_time  # type: ignore[method-assign]

    def _read_append_time(self, cut: Cut, written: Written) -> tuple[str, int] | None:
        self.asked.append((cut, written))
        return (TOPIC, self.driver.now_ms - self.ahead_ms) if self._tells else None

    def done(self) -> list[Any]:
        return [one if isinstance(one, str) else one[0] for one in self.driver.done]


@pytest.mark.parametrize(("ahead_ms", "side"), [(2 * HOUR_MS, "ahead of"), (-2 * HOUR_MS, "behind")])
def test_with_a_clock_two_hours_off_an_epoch_gets_no_barrier(ahead_ms: int, side: str) -> None:
    """Nor a list: the rows stand on the changelog, and the next attempt writes them again."""
    one = Clocks(ahead_ms)
    with pytest.raises(UnavailableError, match=rf"(119|120) minutes {side} .* {TOPIC}"):
        one.driver.write(0)
    assert one.asked == [(PROVED.changelog_cut, WRITTEN)]
    assert one.done() == ["begin", "action", "rows-written", "prove"]
    assert one.driver.epochs.newest is None


def test_a_clock_that_was_wrong_is_asked_about_again() -> None:
    """A refusal is no look: the epoch that is tried again looks first."""
    one = Clocks(2 * HOUR_MS)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            one.driver.write(0)
    one.ahead_ms = 0
    assert one.driver.write(0).epoch == 0
    assert len(one.asked) == 3


def test_the_clock_is_looked_at_every_ten_minutes() -> None:
    """At the first epoch, then not within the interval, then again; also where the clock was set back."""
    one = Clocks()
    for epoch, (passed_ms, looks) in enumerate([(0, 1), (LOOK_MS // 2, 1), (LOOK_MS, 2), (-HOUR_MS, 3)]):
        one.driver.now_ms += passed_ms
        one.driver.write(epoch)
        assert len(one.asked) == looks, epoch


def test_brokers_that_tell_no_append_time_are_asked_each_time() -> None:
    one = Clocks(tells=False)
    for epoch in range(2):
        one.driver.write(epoch)
    assert len(one.asked) == 2


def test_an_epoch_without_rows_has_no_append_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_epoch, "WRITTEN", Written({0: 0, 1: 0}, {0: 0, 1: 0}))
    one = Clocks(2 * HOUR_MS)
    assert one.driver.write(0).rows == 0
    assert one.asked == []
