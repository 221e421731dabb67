"""The newest milestones with the time that each step took, kept in arrays and shown aggregated.

Theory of operation. A milestone costs ten numbers, so 100,000 of them take 8 MB. A page never gets more columns
than it can draw: `columns_of` cuts a range of time into slices and gives the median and the maximum of each. Times
are those of the records. The clock of each service is its own, so a step is never shown below 0.

Two steps are on no milestone. `mark_published` takes the times of the publisher's positions. `mark_applied` takes
the times at which the view was observed; a milestone that was applied before the first observation stays unknown.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from cutwater.core.protocol.records import Milestone

STEPS = ("written", "committed", "applied", "published")
"""From the epoch's start to its rows; from there to the milestone; from the milestone to view and output."""
KEPT_MAX = 100_000
COLUMNS_MAX = 600
EARLY_MAX = 64
UNKNOWN_MS = -1
_COUNTS = ("events", "rows", "late", "rejected")


class _Mark(NamedTuple):
    """A step of the milestones from `first` to `last`, done by `at_ms`."""

    step: str
    first: int
    last: int
    at_ms: int


class Timeline:
    """The newest `most` milestones, in the order of the commit stream."""

    def __init__(self, most: int = KEPT_MAX) -> None:
        self._most = most
        self.version = 0
        """Changes with each change of what is shown."""
        self._sequences = array("q")
        self._times = array("q")
        """When each was committed; never smaller than the one before, so that a range can be searched."""
        self._epochs = array("q")
        self._steps = {name: array("q") for name in STEPS}
        self._counts = {name: array("q") for name in _COUNTS}
        self._generations: list[str] = []
        """The generations' ids, each once."""
        self._of = array("q")
        """By milestone: the index of its generation."""
        self._early: deque[_Mark] = deque(maxlen=EARLY_MAX)
        """Times of milestones that are not here yet: topics are read one after the other."""

    def __len__(self) -> int:
        return len(self._sequences)

    @property
    def last_sequence(self) -> int:
        return self._sequences[-1] if self._sequences else 0

    def take(self, one: Milestone) -> bool:
        """Add a milestone; return False for one that is not after the newest."""
        if one.sequence <= self.last_sequence:
            return False
        self._sequences.append(one.sequence)
        self._times.append(max(one.committed_ms, self._times[-1] if self._times else one.committed_ms))
        self._epochs.append(one.epoch)
        self._of.append(self._generation(str(one.generation)))
        self._steps["written"].append(max(0, one.written_ms - one.epoch_started_ms))
        self._steps["committed"].append(max(0, one.committed_ms - one.written_ms))
        for name in ("applied", "published"):
            self._steps[name].append(UNKNOWN_MS)
        for name in _COUNTS:
            self._counts[name].append(getattr(one, name))
        for mark in self._early:
            if mark.first <= one.sequence <= mark.last:
                self._steps[mark.step][-1] = max(0, mark.at_ms - self._times[-1])
        self._forget_oldest()
        self.version += 1
        return True

    def mark_published(self, sequence: int, at_ms: int) -> None:
        """Note when the output held a milestone completely."""
        self._mark("published", sequence, sequence, at_ms)

    def mark_applied(self, before: int, sequence: int, at_ms: int) -> None:
        """Note that the view has reached `sequence` by `at_ms`. `before`: the milestone at the observation before;
        those in between were applied since then."""
        self._mark("applied", before + 1, sequence, at_ms)

    def columns_of(self, from_ms: int | None, to_ms: int | None, columns: int) -> dict[str, Any]:
        """Return the milestones committed from `from_ms` to `to_ms`, in at most `columns` slices of time."""
        first = 0 if from_ms is None else bisect_left(self._times, from_ms)
        end = len(self) if to_ms is None else bisect_right(self._times, to_ms)
        slices = self._slices(first, end, max(1, min(columns, COLUMNS_MAX)))
        return {
            "kept": len(self),
            "count": max(0, end - first),
            "first": self._row(first) if first < end else None,
            "last": self._row(end - 1) if first < end else None,
            "at": [self._times[one] for one, _ in slices],
            "counts": [stop - one for one, stop in slices],
            "events": [sum(self._counts["events"][one:stop]) for one, stop in slices],
            "rows": [sum(self._counts["rows"][one:stop]) for one, stop in slices],
            "steps": {name: self._step(name, slices) for name in STEPS},
            "summary": {name: _summary(self._steps[name][first:end]) for name in STEPS},
        }

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest milestones, newest first."""
        return [self._row(one) for one in range(len(self) - 1, max(-1, len(self) - 1 - limit), -1)]

    def _mark(self, step: str, first: int, last: int, at_ms: int) -> None:
        into = self._steps[step]
        for one in range(bisect_left(self._sequences, first), bisect_right(self._sequences, last)):
            if into[one] == UNKNOWN_MS:
                into[one] = max(0, at_ms - self._times[one])
                self.version += 1
        if last > self.last_sequence:
            self._early.append(_Mark(step, first, last, at_ms))

    def _slices(self, first: int, end: int, columns: int) -> list[tuple[int, int]]:
        """Return the indices of each slice of time that has a milestone; one each if they are few."""
        if end - first <= columns:
            return [(one, one + 1) for one in range(first, end)]
        begin, last = self._times[first], self._times[end - 1]
        width = max(1, -(-(last - begin + 1) // columns))
        found, at = [], first
        for number in range(columns):
            stop = bisect_left(self._times, begin + (number + 1) * width, at, end)
            if stop > at:
                found.append((at, stop))
            at = stop
        return found

    def _step(self, name: str, slices: Sequence[tuple[int, int]]) -> dict[str, list[int | None]]:
        of = self._steps[name]
        ranked = [_known(of[one:stop]) for one, stop in slices]
        return {
            "median": [each[(len(each) - 1) // 2] if each else None for each in ranked],
            "max": [each[-1] if each else None for each in ranked],
        }

    def _row(self, one: int) -> dict[str, Any]:
        steps = {name: _shown(self._steps[name][one]) for name in STEPS}
        counts = {name: self._counts[name][one] for name in _COUNTS}
        generation = self._generations[self._of[one]]
        return {
            "token": f"{generation}:{self._sequences[one]}",
            "sequence": self._sequences[one],
            "generation": generation,
            "epoch": self._epochs[one],
            "committed_ms": self._times[one],
            **counts,
            "steps": steps,
        }

    def _generation(self, name: str) -> int:
        if not self._generations or self._generations[-1] != name:
            self._generations.append(name)
        return len(self._generations) - 1

    def _forget_oldest(self) -> None:
        # In chunks, because removing from the front of an array moves all of it.
        if len(self) <= self._most + max(1, self._most // 8):
            return
        many = len(self) - self._most
        kept = (
            self._sequences,
            self._times,
            self._epochs,
            self._of,
            *self._steps.values(),
            *self._counts.values(),
        )
        for one in kept:
            del one[:many]
        oldest = self._of[0]
        if oldest:  # ids that no milestone has any more
            del self._generations[:oldest]
            self._of = array("q", (one - oldest for one in self._of))


def _known(values: array[int]) -> list[int]:
    return sorted(one for one in values if one != UNKNOWN_MS)


def _shown(value: int) -> int | None:
    return None if value == UNKNOWN_MS else value


def _summary(values: array[int]) -> dict[str, int | None]:
    """Return median, 99th percentile and maximum of the known values, and how many there are."""
    ranked = _known(values)
    if not ranked:
        return {"known": 0, "median": None, "p99": None, "max": None}
    last = len(ranked) - 1
    return {
        "known": len(ranked),
        "median": ranked[last // 2],
        "p99": ranked[-(-last * 99 // 100)],
        "max": ranked[-1],
    }
