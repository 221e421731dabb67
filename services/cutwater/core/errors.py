"""Errors that Cutwater raises on purpose. The type says who must act, the message says what to do.

The exit codes are part of the command line's contract (README, "Exit codes").
"""

from __future__ import annotations


class CutwaterError(Exception):
    """An error whose message says what happened, to which object, and what to do."""

    exit_code = 1


class UsageError(CutwaterError):
    """The user's input is wrong: a job file, a setting, an argument, an event."""

    exit_code = 2


class NotYetError(UsageError):
    """A claim or promotion is refused for now: it is held, or another one is requested. Trying again later may
    work."""


class MachineError(CutwaterError):
    """The machine lacks something: Java, a free port, disk, a writable folder."""

    exit_code = 3


class DiskFullError(MachineError):
    """A disk is full. Retry the operation after freeing space."""


class UnavailableError(CutwaterError):
    """A broker or service does not answer within its timeout. Trying again later may work."""

    exit_code = 4


class HeldUpError(UnavailableError):
    """This process was paused for longer than the transaction timeout. Another process may have taken over."""


class ProtocolError(CutwaterError):
    """The commit protocol forbids what was found. The process stops, because continuing would show wrong state."""

    exit_code = 5


class UnknownRecordError(ProtocolError):
    """A record is of no known schema: a newer version of Cutwater, or another program, has written it."""


class FencedError(ProtocolError):
    """A newer owner has taken over; this process must exit."""

    exit_code = 6


class DivergenceError(ProtocolError):
    """Records that must be equal differ: rows of another writer, a broken chain, a digest that does not match."""

    exit_code = 7


class ForeignRowsError(DivergenceError):
    """A changelog holds rows of another writer. The generation has ended, and the next one may start."""

    exit_code = 8


class LostRecordsError(DivergenceError):
    """A log has lost acknowledged records below a cut. Continue from a milestone that does not need them."""

    exit_code = 9


class UnexpectedError(CutwaterError):
    """An error that no other type covers: a bug in Cutwater. Its traceback is printed or logged."""

    exit_code = 70
