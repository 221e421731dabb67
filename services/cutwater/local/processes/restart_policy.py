"""Decides whether and when an ended child is restarted, and whether its failure repeats. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cutwater.core.errors import (
    CutwaterError,
    DivergenceError,
    FencedError,
    ForeignRowsError,
    LostRecordsError,
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
    LostRecordsError,
)
FINAL_EXIT_CODES = frozenset(error.exit_code for error in _FINAL_ERRORS)

APART_MS_MAX = 3_600_000
"""Failures further apart than this are not a repetition: the child has worked in between."""
UNCHANGED_MAX = 10
"""The maximum of equal failures in a row without progress. `RestartPolicy` does not limit failures far apart."""
_STANDS_MS_MIN = 300_000
_VARYING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]*[0-9][0-9a-f]*")


@dataclass(frozen=True)
class RestartPolicy:
    """The limits on restarts of a child. Times in seconds.

    At most `restarts_max` restarts start within any `window_seconds`. The n-th of them waits
    `delay_seconds` * 2**(n-1), at most `delay_seconds_max`. Exit codes in `final_exit_codes` are errors that a
    restart cannot fix; exit code 0 means that the child has finished its work.
    """

    restarts_max: int = 5
    window_seconds: float = 120.0
    delay_seconds: float = 0.5
    delay_seconds_max: float = 10.0
    final_exit_codes: frozenset[int] = FINAL_EXIT_CODES


NEVER_RESTART = RestartPolicy(restarts_max=0)


@dataclass(frozen=True)
class Restart:
    delay_seconds: float


@dataclass(frozen=True)
class Finished:
    """The child has ended successfully and stays ended."""


@dataclass(frozen=True)
class GiveUp:
    """The child must not be restarted; `reason` completes the sentence "it is not restarted: …"."""

    reason: str


def decide(
    policy: RestartPolicy, exit_code: int, restarts: Sequence[float], now_seconds: float
) -> Restart | Finished | GiveUp:
    """Decide what follows the end of a child. `exit_code`: negative for a signal, as in subprocess. `restarts`:
    the times of earlier restarts, on the clock of `now_seconds`."""
    if exit_code == 0:
        return Finished()
    if exit_code in policy.final_exit_codes:
        return GiveUp(f"exit code {exit_code} is an error that a restart cannot fix")
    recent = sum(1 for started in restarts if now_seconds - started < policy.window_seconds)
    if recent >= policy.restarts_max:
        return GiveUp(f"it was already restarted {recent} times within {policy.window_seconds:g} s")
    # The exponent is limited, as a float would overflow for a large policy.
    return Restart(min(policy.delay_seconds * 2.0 ** min(recent, 60), policy.delay_seconds_max))


@dataclass(frozen=True)
class Failure:
    """How a child has ended, and how often in a row. Times in ms since 1970."""

    exit_code: int
    said: str
    """Its last message, one line."""
    times: int
    since_ms: int
    last_ms: int
    apart_ms: int = 0
    """The time between the last two failures."""

    def repeats(self, now_ms: int) -> bool:
        """Return whether the same failure has repeated, recently enough that the child has not worked since.

        A signal comes from outside, once more by a repair or an operator: it repeats from its third time on.
        """
        least = 3 if self.exit_code < 0 else 2
        return self.times >= least and now_ms - self.last_ms <= max(_STANDS_MS_MIN, 2 * self.apart_ms)


def failed(before: Failure | None, exit_code: int, said: str, now_ms: int) -> Failure:
    """Return the failure after one more end. Numbers in the message may differ: offsets, times, ids of runs."""
    apart_ms = now_ms - before.last_ms if before else 0
    if before is None or apart_ms > APART_MS_MAX or _kind(before.exit_code, before.said) != _kind(exit_code, said):
        return Failure(exit_code, said, 1, now_ms, now_ms)
    return Failure(exit_code, said, before.times + 1, before.since_ms, now_ms, apart_ms)


@dataclass(frozen=True)
class Repetition:
    """Equal failures in a row without progress in between."""

    failure: Failure
    reached: object
    """What the child had reached at each of them."""

    def give_up(self) -> GiveUp | None:
        if self.failure.times < UNCHANGED_MAX:
            return None
        return GiveUp(
            f"it has failed {self.failure.times} times in a row in the same way, without a new milestone"
        )


def repeated(before: Repetition | None, reached: object, exit_code: int, said: str, now_ms: int) -> Repetition:
    """Return the repetition after one more failure. `reached`: compared with that of the failure before."""
    same = before.failure if before is not None and before.reached == reached else None
    return Repetition(failed(same, exit_code, said, now_ms), reached)


def _kind(exit_code: int, said: str) -> tuple[int, str]:
    return exit_code, _VARYING.sub("#", said)


def error_for(exit_code: int, message: str) -> CutwaterError:
    """Return the error by which a supervisor passes a child's final exit code to its own caller."""
    kinds = {kind.exit_code: kind for kind in _FINAL_ERRORS}
    return kinds.get(exit_code, UnavailableError)(message)
