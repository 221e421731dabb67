"""Whether an ended child is started again, and when, and whether it ends as before: decided from plain values."""

from __future__ import annotations

import re
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

APART_MS_MAX = 3_600_000
"""Failures further apart are not one that comes again: in between the child has worked."""
_STANDS_MS_MIN = 300_000
_VARYING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]*[0-9][0-9a-f]*")


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


@dataclass(frozen=True)
class Failure:
    """How a child has ended, and how often since it last ended otherwise. Times in ms since 1970."""

    exit_code: int
    said: str
    """Its last words, one line."""
    times: int
    since_ms: int
    last_ms: int
    apart_ms: int = 0
    """Between the last two."""

    def repeats(self, now_ms: int) -> bool:
        """Has it come again unchanged, and not so long ago that the child must have worked since?"""
        return self.times > 1 and now_ms - self.last_ms <= max(_STANDS_MS_MIN, 2 * self.apart_ms)


def failed(before: Failure | None, exit_code: int, said: str, now_ms: int) -> Failure:
    """The failure after one more end; numbers in the words may differ: offsets, times and ids of runs do."""
    apart_ms = now_ms - before.last_ms if before else 0
    if before is None or apart_ms > APART_MS_MAX or _kind(before.exit_code, before.said) != _kind(exit_code, said):
        return Failure(exit_code, said, 1, now_ms, now_ms)
    return Failure(exit_code, said, before.times + 1, before.since_ms, now_ms, apart_ms)


def _kind(exit_code: int, said: str) -> tuple[int, str]:
    return exit_code, _VARYING.sub("#", said)


def error_for(exit_code: int, message: str) -> CutwaterError:
    """The error by which a supervisor passes a child's final exit code on to its own caller."""
    kinds = {kind.exit_code: kind for kind in _FINAL_ERRORS}
    return kinds.get(exit_code, UnavailableError)(message)
