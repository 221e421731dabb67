"""Whether an ended child is started again, and when: decided from plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutwater.core.errors import (
    CutwaterError,
    DivergenceError,
    FencedError,
    ForeignRowsError,
    MachineError,
    ProtocolError,
    UnavailableError,
    UsageError,
)

_FINAL_ERRORS: tuple[type[CutwaterError], ...] = (
    UsageError,
    MachineError,
    ProtocolError,
    FencedError,
    DivergenceError,
    ForeignRowsError,
)
FINAL_EXIT_CODES = frozenset(error.exit_code for error in _FINAL_ERRORS)


@dataclass(frozen=True)
class RestartPolicy:
    """How often and how fast a child may be restarted. Times in seconds.

    At most `restarts_max` restarts begin within any `window_seconds`. The n-th of them waits
    `delay_seconds` * 2**(n-1), at most `delay_seconds_max`. Exit codes in `final_exit_codes` stand for errors
    that a restart cannot mend; exit code 0 means that the child finished its work.
    """

    restarts_max: int = 5
    window_seconds: float = 120.0
    delay_seconds: float = 0.5
    delay_seconds_max: float = 10.0
    final_exit_codes: frozenset[int] = FINAL_EXIT_CODES


NEVER_RESTART = RestartPolicy(restarts_max=0)


@dataclass(frozen=True)
class Restart:
    """Start the child again after a delay."""

    delay_seconds: float


@dataclass(frozen=True)
class Finished:
    """The child ended well and stays ended."""


@dataclass(frozen=True)
class GiveUp:
    """The child must not be started again; `reason` completes the sentence "it is not restarted: …"."""

    reason: str


def decide(
    policy: RestartPolicy, exit_code: int, restarts: Sequence[float], now_seconds: float
) -> Restart | Finished | GiveUp:
    """What follows the end of a child.

    `exit_code` is negative for a signal, as in subprocess. `restarts` are the times of earlier restarts on the
    clock that `now_seconds` comes from.
    """
    if exit_code == 0:
        return Finished()
    if exit_code in policy.final_exit_codes:
        return GiveUp(f"exit code {exit_code} stands for an error that a restart cannot mend")
    recent = sum(1 for started in restarts if now_seconds - started < policy.window_seconds)
    if recent >= policy.restarts_max:
        return GiveUp(f"it was already restarted {recent} times within {policy.window_seconds:g} s")
    # The exponent is bounded, since a float overflows where a large policy would not.
    return Restart(min(policy.delay_seconds * 2.0 ** min(recent, 60), policy.delay_seconds_max))


def error_for(exit_code: int, message: str) -> CutwaterError:
    """The error by which a supervisor passes a child's final exit code on to its own caller."""
    kinds = {kind.exit_code: kind for kind in _FINAL_ERRORS}
    return kinds.get(exit_code, UnavailableError)(message)
