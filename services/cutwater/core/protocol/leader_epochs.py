"""Which leaders of the origin wrote what is copied: so a milestone and a copy are known to speak of one log.

Two logs that hold a record of one leader at one offset are the same log up to it. A milestone names the leader
that its cut was told by. A copy that goes up to that leader's log, or a later one's, and holds nothing of a later
one below the cut is what that milestone has counted. If the origin has lost what it had acknowledged, one of the
two is not so: the copy holds what the milestone has not counted, or the other way round.

Sources: the log matching property (Raft, section 5.3); KIP-101 for Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from cutwater.core.protocol.log_evidence import UNKNOWN

LEADERS_MAX = 64
"""Of a partition, the newest: older milestones that still wait then are passed over."""


class Led(NamedTuple):
    """A leader, and the source offset from which on records are its own, up to the next leader's."""

    epoch: int
    first: int


def joined(before: Sequence[Led], after: Sequence[Led]) -> tuple[Led, ...]:
    """Those of a log in order, each once: its first record counts."""
    found: list[Led] = []
    for one in (*before, *after):
        if not found or found[-1].epoch != one.epoch:
            found.append(one)
    return tuple(found)


class Match(Enum):
    """Is what stands below a cut what a leader's log held?"""

    YES = "yes"
    NO = "no"
    FORGOTTEN = "which leaders wrote it is not known any more"


class Leaders:
    """Of the copy of one partition, in log order."""

    def __init__(self, first: int, led: Sequence[Led]) -> None:
        """`first`: the source offset at which copying began."""
        self._led = deque(led, maxlen=LEADERS_MAX)
        self._first = first

    def add(self, led: Sequence[Led]) -> None:
        self._led = deque(joined(self._led, led), maxlen=LEADERS_MAX)

    def match(self, cut: int, epoch: int) -> Match:
        """Is what is copied below the cut, of those leaders up to this one that are known?"""
        if epoch == UNKNOWN:
            return Match.YES
        later = next((one for one in self._led if one.epoch > epoch), None)
        if later is None:
            return Match.YES
        if cut > later.first:
            return Match.NO
        forgotten = later == self._led[0] and later.first > self._first and cut > self._first
        return Match.FORGOTTEN if forgotten else Match.YES
