"""The leader epochs of copied records, to check that a milestone and a copy refer to the same log.

Two logs that hold a record of the same leader at the same offset are equal up to it. A milestone names the leader
that reported its cut. A copy holds the records of the milestone if it reaches the log of that leader or a later
one, and has no record of a later leader below the cut. If the origin has lost acknowledged records, one of the two
fails: the copy holds records that the milestone has not counted, or the reverse.

Sources: the log matching property (Raft, section 5.3); KIP-101 for Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from cutwater.core.protocol.log_evidence import UNKNOWN

LEADERS_MAX = 64
"""The leaders to keep per partition, the newest. Older milestones that still wait are skipped."""


class LeaderStart(NamedTuple):
    """A leader epoch, and the source offset of its first record. It ends at the next leader's first record."""

    epoch: int
    first: int


def join_leaders(before: Sequence[LeaderStart], after: Sequence[LeaderStart]) -> tuple[LeaderStart, ...]:
    """Return the leaders of two parts of a log in order, without repeats."""
    found: list[LeaderStart] = []
    for one in (*before, *after):
        if not found or found[-1].epoch != one.epoch:
            found.append(one)
    return tuple(found)


class Match(Enum):
    """Whether the records below a cut are those of a leader's log."""

    YES = "yes"
    NO = "no"
    FORGOTTEN = "the leaders that wrote it are no longer known"


class Leaders:
    def __init__(self, first: int, led: Sequence[LeaderStart]) -> None:
        """`first`: the source offset at which copying started."""
        self._led = deque(led, maxlen=LEADERS_MAX)
        self._first = first

    def add(self, led: Sequence[LeaderStart]) -> None:
        self._led = deque(join_leaders(self._led, led), maxlen=LEADERS_MAX)

    def match(self, cut: int, epoch: int) -> Match:
        """Return whether the records copied below the cut are of leaders up to `epoch`."""
        if epoch == UNKNOWN:
            return Match.YES
        later = next((one for one in self._led if one.epoch > epoch), None)
        if later is None:
            return Match.YES
        if cut > later.first:
            return Match.NO
        forgotten = later == self._led[0] and later.first > self._first and cut > self._first
        return Match.FORGOTTEN if forgotten else Match.YES
