"""Every error Cutwater raises on purpose: who must act is in the type, what to do is in the message.

The exit codes are part of the command line's contract (README, "Exit codes").
"""

from __future__ import annotations


class CutwaterError(Exception):
    """An error with a message for a person: what happened, to which object, and what to do."""

    exit_code = 1


class UsageError(CutwaterError):
    """The user's input is wrong: a job file, a setting, an argument, an event."""

    exit_code = 2


class MachineError(CutwaterError):
    """The machine lacks something: Java, a free port, disk, a writable folder."""

    exit_code = 3


class DiskFullError(MachineError):
    """There is no room on a disk. With room again, the same may be tried again."""


class UnavailableError(CutwaterError):
    """A broker or service does not answer within its bound. Trying again later may work."""

    exit_code = 4


class HeldUpError(UnavailableError):
    """This process stood still for longer than a transaction may take; whether somebody took over is not known."""


class ProtocolError(CutwaterError):
    """The commit protocol forbids what was found. Going on would show wrong state: the process stops."""

    exit_code = 5


class FencedError(ProtocolError):
    """A newer owner has taken over; this process must leave."""

    exit_code = 6


class DivergenceError(ProtocolError):
    """Records that must be equal are not: foreign rows, a broken chain, a digest that does not match."""

    exit_code = 7


class ForeignRowsError(DivergenceError):
    """Rows of another writer stand on a changelog: the generation has ended, and the next one may begin."""

    exit_code = 8


class LostRecordsError(DivergenceError):
    """A log has lost records below a cut, which it had acknowledged: nothing can bring them back."""


class UnexpectedError(CutwaterError):
    """What no other error foresees: a fault of Cutwater's. Its traceback is printed, or stands in the log."""

    exit_code = 70
