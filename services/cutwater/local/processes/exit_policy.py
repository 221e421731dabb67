"""Decides what follows when a process of one generation has ended permanently in a stack. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple

from cutwater.core.errors import CutwaterError, DivergenceError, ForeignRowsError, LostRecordsError
from cutwater.core.failover.rejoin import ResumeDecision
from cutwater.core.protocol.generation import Generation


class ProcessEnd(NamedTuple):
    """The process that has ended. A process of a stack works for one generation all its life."""

    generation: Generation
    driver: bool
    exit_code: int


class Stage(NamedTuple):
    promoted: Generation | None
    made: Collection[Generation]
    """The generations whose processes this stack has started since its start."""
    is_given_up: bool = False
    """True if the promoted generation's driver has ended here and was given up for a successor."""
    successor: Generation | None = None
    """The candidate whose promotion was requested."""


class Fate(Enum):
    REPLACED = "another generation has replaced its own and runs here"
    SPARE = "no other process needs it"
    RENEW = "the next generation starts from the last milestone"
    WAITS = "records are lost, and an operator chooses the milestone to continue from"
    ENDS = "no other process can do its work"


_FATES = {
    DivergenceError.exit_code: Fate.RENEW,
    ForeignRowsError.exit_code: Fate.RENEW,
    # Without its records, the last milestone gives no state. A rollback undoes milestones: an operator decides.
    LostRecordsError.exit_code: Fate.WAITS,
}
"""What follows the end of the promoted generation's driver, by its exit code."""


def decide_fate(ended: ProcessEnd, stage: Stage) -> Fate:
    generation, promoted = ended.generation, stage.promoted
    if promoted is None:
        return Fate.ENDS  # there is no milestone to start from
    if promoted == generation:
        return _FATES.get(ended.exit_code, Fate.ENDS) if ended.driver else Fate.ENDS
    if promoted.number > generation.number:
        return Fate.REPLACED if promoted in stage.made else Fate.ENDS
    if not stage.is_given_up:
        return Fate.SPARE
    if stage.successor == generation:
        # Another error (such as a checkpoint that does not fit) would end the next candidate, too.
        again = ended.driver and ended.exit_code != DivergenceError.exit_code
        return _FATES.get(ended.exit_code, Fate.ENDS) if again else Fate.ENDS
    return Fate.ENDS if stage.successor is None else Fate.SPARE


Look = Callable[[], ResumeDecision]


class RegionWait:
    """The check with the other region. Without one, they never wait."""

    def __init__(self, look: Look = lambda: ResumeDecision(False)) -> None:
        self._look = look

    def is_waiting(self) -> bool:
        # A process that must not continue at all does not wait: it exits with its reason.
        try:
            return self._look().waits
        except CutwaterError:
            return False
