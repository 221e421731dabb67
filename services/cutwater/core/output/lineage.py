"""Which milestones of an upstream job a cut of its output contains.

Each milestone ends with an end marker in every partition. It is contained whole if its last marker is below the
cut in all of them, and partly if a record of it is below the cut in one. Milestones are contained in their order,
so two of them say all: the newest whole one, and the newest of which there is anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cutwater.core.output.position import End
from cutwater.core.protocol.generation import Token


class Reach(NamedTuple):
    """How far a cut reaches into one partition."""

    ended: End | None
    """The last milestone whose last marker is below the cut; None if there is none."""
    begun: End | None = None
    """The milestone whose records are below the cut without that marker; None if the cut is between milestones."""

    @property
    def ended_token(self) -> Token | None:
        return _token(self.ended)

    @property
    def newest_token(self) -> Token | None:
        return _token(self.begun or self.ended)


class Contained(NamedTuple):
    """Every milestone up to `whole` is contained whole; those above it up to `partly` are contained in part."""

    whole: Token | None
    partly: Token | None


def contained(reaches: Iterable[Reach]) -> Contained:
    """Return what a cut over all partitions contains; None: nothing."""
    reaches = list(reaches)
    ended = [one.ended for one in reaches]
    whole = None if None in ended else min((one for one in ended if one), key=_sequence, default=None)
    found = [one for reach in reaches for one in (reach.begun, reach.ended) if one]
    return Contained(_token(whole), _token(max(found, key=_sequence, default=None)))


def _sequence(end: End) -> int:
    return end.sequence


def _token(end: End | None) -> Token | None:
    return Token(end.generation, end.sequence) if end else None
