"""Another region's commit stream as it is followed here: its milestones as they arrive.

Copied milestones and arrivals are on two topics, each in the order of the stream. A milestone is yielded once its
arrival is read, with the changelog cut that is valid here. If a later arrival has skipped it, it is yielded as
missed: it belongs to the chain, but no view can stop there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from cutwater.core.errors import DivergenceError
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import NOWHERE
from cutwater.core.protocol.mirror_records import Arrival
from cutwater.core.state.backlog import Entry, MissedMilestone

HELD = 1_000
"""Records of each topic read ahead of the other, plus those of one poll."""
_HELD_MAX = 10 * HELD


class ReplicaStream:
    """Joins milestones and arrivals. The reader bounds it by `wants_milestones` and `wants_arrivals`."""

    def __init__(self) -> None:
        self._milestones: deque[Entry] = deque(maxlen=_HELD_MAX)
        self._arrivals: deque[tuple[int, Arrival]] = deque(maxlen=_HELD_MAX)
        self._before: tuple[int, Arrival] | None = None
        """The last arrival used or skipped."""

    @property
    def wants_milestones(self) -> bool:
        return len(self._milestones) < HELD

    @property
    def wants_arrivals(self) -> bool:
        return len(self._arrivals) < HELD

    @property
    def waits(self) -> bool:
        """Whether a milestone has no known arrival yet."""
        return bool(self._milestones) and not self._arrivals

    @property
    def even(self) -> bool:
        """Whether no arrival waits for its milestone to be read."""
        return not self._arrivals

    def milestone(self, entry: Entry) -> None:
        """Add the next milestone of the copied stream."""
        self._milestones.append(entry)

    def arrival(self, offset: int, arrival: Arrival) -> None:
        """Add the next arrival."""
        self._arrivals.append((offset, arrival))

    def ready(self) -> Iterator[Entry | MissedMilestone]:
        """Yield what is ready, in order. Raises DivergenceError if an arrival is of another milestone."""
        while self._milestones and self._arrivals:
            entry, (offset, arrival) = self._milestones[0], self._arrivals[0]
            if arrival.sequence < entry.milestone.sequence:  # read again after a pause
                self._before = self._arrivals.popleft()
                continue
            self._milestones.popleft()
            if arrival.sequence > entry.milestone.sequence:
                yield MissedMilestone(self._with_cut_before(entry))
                continue
            if arrival.milestone_hash != link(entry.record) or arrival.generation != entry.milestone.generation:
                raise DivergenceError(
                    f"the arrival of {arrival.token} is of another milestone than the copied stream's "
                    f"{entry.milestone.token}: one of the two topics was replaced. Find the cause; then start a "
                    "new copy by 'cutwater mirror resync'"
                )
            self._before = self._arrivals.popleft()
            yield _here(entry, offset, arrival)

    def _with_cut_before(self, entry: Entry) -> Entry:
        """Return the entry with the cut of the arrival before it, as its own cut has the origin's offsets."""
        before = self._before
        if before is None or before[1].generation != entry.milestone.generation:
            return entry._replace(milestone=replace(entry.milestone, changelog_cut=NOWHERE, evidence=()))
        return _here(entry, *before)


def _here(entry: Entry, offset: int, arrival: Arrival) -> Entry:
    here = replace(entry.milestone, changelog_cut=arrival.changelog_cut, evidence=arrival.evidence)
    return entry._replace(milestone=here, arrived=offset)
