"""What follows where a process of one generation has ended for good in a stack: decided from plain values."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from cutwater.core.errors import DivergenceError, ForeignRowsError
from cutwater.core.protocol.generation import Generation


class Ended(NamedTuple):
    """Who has ended, and how. A process of a stack works for one generation all its life."""

    generation: Generation
    driver: bool
    exit_code: int


class Stage(NamedTuple):
    """What is promoted, and who is to follow."""

    promoted: Generation | None
    made: Collection[Generation]
    """Those whose processes this stack has started beside the ones that it began with."""
    forsaken: bool = False
    """Has the promoted one's driver ended here, and left its place to who follows?"""
    successor: Generation | None = None
    """The candidate whose promotion was asked for."""


class Fate(Enum):
    REPLACED = "its generation is over, and another one is at work"
    SPARE = "no other process needs it"
    RENEW = "the next generation is to start from the last milestone"
    ENDS = "nobody would do its work"


def fate(ended: Ended, stage: Stage) -> Fate:
    """Asked at the end of a driver or commit-signal that may not be restarted."""
    generation, promoted = ended.generation, stage.promoted
    if promoted is None:
        return Fate.ENDS  # there is no milestone to start from
    if promoted == generation:
        lost = (DivergenceError.exit_code, ForeignRowsError.exit_code)
        return Fate.RENEW if ended.driver and ended.exit_code in lost else Fate.ENDS
    if promoted.number > generation.number:
        return Fate.REPLACED if promoted in stage.made else Fate.ENDS
    if not stage.forsaken:
        return Fate.SPARE
    if stage.successor == generation:
        # What else ends it (a parent that cannot be read) would end the next one, too.
        foreign = ended.driver and ended.exit_code == ForeignRowsError.exit_code
        return Fate.RENEW if foreign else Fate.ENDS
    return Fate.ENDS if stage.successor is None else Fate.SPARE
