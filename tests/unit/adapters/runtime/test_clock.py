"""The clock of a process: what a file adds to it, and where it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.adapters.runtime.clock import LOOK_S, ClockShift, require_steady_clock
from cutwater.core.errors import UsageError


class Ticks:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_file_moves_the_clock_until_it_is_gone(tmp_path: Path) -> None:
    file, ticks = tmp_path / "shift", Ticks()
    shift = ClockShift(file, ticks)
    assert shift.ms() == 0
    file.write_text("-5000")
    assert shift.ms() == 0, "the file is not read at each look"
    ticks.now_s += LOOK_S
    assert shift.ms() == -5_000
    file.unlink()
    ticks.now_s += LOOK_S
    assert shift.ms() == 0


@pytest.mark.parametrize("text", ["", "soon", "1.5", "\xff"])
def test_a_file_without_a_number_moves_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "shift"
    file.write_text(text, encoding="latin-1")
    assert ClockShift(file, Ticks()).ms() == 0


def test_without_a_file_the_clock_stays() -> None:
    assert ClockShift(None).ms() == 0


@pytest.mark.parametrize("bootstrap", ["kafka:9092", "127.0.0.1:9092,10.0.0.7:9092", "localhost.example:9092"])
def test_a_broker_elsewhere_allows_no_moved_clock(bootstrap: str) -> None:
    with pytest.raises(UsageError, match="unset the variable"):
        require_steady_clock(bootstrap, "/tmp/shift")
    require_steady_clock(bootstrap, None)


@pytest.mark.parametrize("bootstrap", ["127.0.0.1:9092", "localhost:9092, [::1]:9093"])
def test_brokers_on_this_machine_allow_it(bootstrap: str) -> None:
    require_steady_clock(bootstrap, "/tmp/shift")
