"""Whether an ended child is started again, from plain values."""

from __future__ import annotations

import pytest

from cutwater.core.errors import DivergenceError, FencedError, UnavailableError
from cutwater.local.processes.restart_policy import (
    APART_MS_MAX,
    Failure,
    Finished,
    GiveUp,
    Restart,
    RestartPolicy,
    decide,
    error_for,
    failed,
)

POLICY = RestartPolicy(restarts_max=3, window_seconds=60, delay_seconds=1, delay_seconds_max=3)


def test_a_success_stays_ended() -> None:
    """Exit code 0 means the work is done, however often it was restarted before."""
    assert decide(POLICY, 0, [0.0, 1.0, 2.0, 3.0], 4.0) == Finished()


@pytest.mark.parametrize("exit_code", [2, 3, 5, 6, 7, 8, 9])
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


def test_a_failure_that_comes_again_unchanged_is_counted_from_its_first_time() -> None:
    """Numbers may differ: offsets, attempts and times do. The newest words are kept."""
    once = failed(None, 4, "no topic t at 17", 1_000)
    again = failed(failed(once, 4, "no topic t at 18", 21_000), 4, "no topic t at 190", 51_000)
    assert once == Failure(4, "no topic t at 17", 1, 1_000, 1_000)
    assert again == Failure(4, "no topic t at 190", 3, 1_000, 51_000, 30_000)
    runs = ("abcdefab-cdef-abcd-efab-cdefabcdefab", "abcdefab-cdef-abcd-efab-cdefabcdefac")  # as Spark tells them
    first, second = (
        f"query [runId = {run}] has failed: Store@{code}" for run, code in zip(runs, ("1f", "a2e"), strict=True)
    )
    assert failed(failed(None, 4, first, 0), 4, second, 1).times == 2


@pytest.mark.parametrize(
    ("exit_code", "said", "after_ms"),
    [(-9, "no topic t", 1), (4, "no topic s", 1), (4, "no topic t", APART_MS_MAX + 1)],
)
def test_another_failure_or_one_long_after_begins_anew(exit_code: int, said: str, after_ms: int) -> None:
    """In between the child was another one, or has worked."""
    once = failed(None, 4, "no topic t", 0)
    assert failed(once, exit_code, said, after_ms) == Failure(exit_code, said, 1, after_ms, after_ms)


def test_a_failure_repeats_from_its_second_time_until_the_child_must_have_worked() -> None:
    """Five minutes without it, or twice the time between the last two where these were far apart."""
    once = failed(None, 4, "x", 0)
    soon, late = failed(once, 4, "x", 20_000), failed(once, 4, "x", 1_200_000)
    assert not once.repeats(0)
    assert [soon.repeats(20_000 + after) for after in (0, 300_000, 300_001)] == [True, True, False]
    assert [late.repeats(1_200_000 + after) for after in (2_400_000, 2_400_001)] == [True, False]


def test_a_child_that_somebody_kills_fails_again_from_its_third_time() -> None:
    """A test, a repair and an operator kill once or twice; what is short of memory is killed again and again."""
    once = failed(None, -9, "", 0)
    twice = failed(once, -9, "", 1_000)
    thrice = failed(twice, -9, "", 2_000)
    assert [one.repeats(2_000) for one in (once, twice, thrice)] == [False, False, True]
