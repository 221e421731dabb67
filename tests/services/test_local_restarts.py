"""Whether an ended child is started again, from plain values."""

from __future__ import annotations

import pytest

from cutwater.core.errors import DivergenceError, FencedError, UnavailableError
from cutwater.local.restarts import Finished, GiveUp, Restart, RestartPolicy, decide, error_for

POLICY = RestartPolicy(restarts_max=3, window_seconds=60, delay_seconds=1, delay_seconds_max=3)


def test_a_success_stays_ended() -> None:
    """Exit code 0 means the work is done, however often it was restarted before."""
    assert decide(POLICY, 0, [0.0, 1.0, 2.0, 3.0], 4.0) == Finished()


@pytest.mark.parametrize("exit_code", [2, 3, 5, 6, 7])
def test_errors_that_a_restart_cannot_mend_are_final(exit_code: int) -> None:
    """Wrong input, a lacking machine and a broken protocol are not tried again."""
    decision = decide(POLICY, exit_code, [], 0.0)
    assert isinstance(decision, GiveUp)
    assert str(exit_code) in decision.reason


@pytest.mark.parametrize("exit_code", [1, 4, -9, -15, 143])
def test_delays_double_up_to_a_bound(exit_code: int) -> None:
    """Crashes, kills and unavailability are tried again, each time later, never later than the bound."""
    assert decide(POLICY, exit_code, [], 0.0) == Restart(1)
    assert decide(POLICY, exit_code, [0.0], 1.0) == Restart(2)
    assert decide(POLICY, exit_code, [0.0, 1.0], 2.0) == Restart(3)


def test_restarts_are_bounded_within_the_window_only() -> None:
    """A fourth restart within the window is refused; restarts older than the window no longer count."""
    assert isinstance(decide(POLICY, 1, [0.0, 20.0, 40.0], 59.9), GiveUp)
    assert decide(POLICY, 1, [0.0, 20.0, 40.0], 60.0) == Restart(3)
    assert decide(POLICY, 1, [0.0, 20.0, 40.0], 1_000.0) == Restart(1)


def test_a_policy_without_restarts_and_a_huge_one_hold() -> None:
    """No restarts allowed means none; thousands allowed do not overflow the delay."""
    assert isinstance(decide(RestartPolicy(restarts_max=0), 1, [], 0.0), GiveUp)
    assert decide(RestartPolicy(restarts_max=10_000), 1, [0.0] * 5_000, 1.0) == Restart(10.0)


def test_a_final_exit_code_becomes_its_own_error_again() -> None:
    """A supervisor passes on why its child ended; an unknown code is "unavailable"."""
    assert isinstance(error_for(6, "x"), FencedError)
    assert isinstance(error_for(7, "x"), DivergenceError)
    assert isinstance(error_for(-9, "x"), UnavailableError)
