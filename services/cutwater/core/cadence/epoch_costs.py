"""What epochs cost: a fixed time, and a time for each event, from the epochs that were seen.

A line through the epochs' times, by least squares of their relative errors. Each epoch counts more than the one
before. Two in a row that differ much from the line, to one side, begin a new one: a sink has become slow, or fast.

Epochs of one size do not say which part of their time is fixed. There a usual value decides, which hardly counts
once sizes differ.

On a machine that does other work too, slow epochs come now and then. So the slowest of the last ones is remembered
beside the line. Until enough were seen, a slow one is assumed.
"""

from __future__ import annotations

from collections import deque

KEPT = 0.9
"""The weight of an epoch beside the next one."""
USUAL_S = 0.4
"""The fixed time of an epoch (benchmarks/README.md, B2)."""
USUAL_WEIGHT = 0.5
"""Of that, beside a weight of 1 for the newest epoch, and of 10 for all."""
CHANGED = 1.5
"""An epoch that takes so many times what was expected, or so many times less, differs much."""
REMEMBERED = 64
"""Epochs, without empty ones. An objective for 99 of 100 events depends on the slowest of about as many."""
ASSUMED_STRETCH = 3.0
"""The slowest takes so many times as long as others, at least, until REMEMBERED were seen."""
SLOWER_YET = 1.25
"""An epoch that differed much may come again, and take so many times as long as it did."""
LEAST_S, LEAST_EVENT_S = 1e-3, 1e-9
"""No machine is faster; so rates are always known."""


class EpochCosts:
    """The times of one driver's epochs."""

    def __init__(self) -> None:
        self._last = deque[tuple[int, float, float]](maxlen=REMEMBERED)
        self._strange: list[tuple[int, float]] = []
        self._forget()
        self._fit()

    def _forget(self) -> None:
        self._known = False
        self._weight = self._events = self._squares = self._seconds = self._products = 0.0

    def add(self, events: int, seconds: float) -> None:
        """Take an epoch with events and its time, in seconds."""
        seconds = max(seconds, LEAST_S)
        expected_s = self.seconds(events)
        if events:
            self._last.append((events, seconds, seconds / expected_s))
        differs = 1 if seconds > CHANGED * expected_s else -1 if seconds * CHANGED < expected_s else 0
        if self._known and differs:
            sides = [one for one in self._strange if (one[1] > self.seconds(one[0])) == (differs > 0)]
            self._strange = [*sides, (events, seconds)]
            if len(self._strange) < 2:
                return  # one alone is a pause of the machine, and no cost; it is among the last ones
            self._forget()
            for one in self._strange:
                self._take(*one)
        else:
            self._take(events, seconds)
        self._strange, self._known = [], True
        self._fit()

    def _take(self, events: int, seconds: float) -> None:
        weight = 1 / seconds**2
        self._weight = KEPT * self._weight + weight
        self._events = KEPT * self._events + weight * events
        self._squares = KEPT * self._squares + weight * events**2
        self._seconds = KEPT * self._seconds + weight * seconds
        self._products = KEPT * self._products + weight * events * seconds

    def _fit(self) -> None:
        weight, seconds = self._weight + USUAL_WEIGHT / USUAL_S**2, self._seconds + USUAL_WEIGHT / USUAL_S
        spread = weight * self._squares - self._events**2
        slope = (weight * self._products - self._events * seconds) / spread if spread > 0 else 0.0
        self.fixed_s = max((seconds - max(slope, 0.0) * self._events) / weight, LEAST_S)
        self.event_s = max(slope, LEAST_EVENT_S)

    def seconds(self, events: float) -> float:
        """Return the time of an epoch with so many events."""
        return self.fixed_s + events * self.event_s

    @property
    def stretches(self) -> list[float]:
        """How many times as long as usual epochs may take, by the last ones; ASSUMED_STRETCH too if those are few.

        Usual is what the line gave then, or gives now if that is longer: a sink that is slow for good is usual.
        """
        found = [min(then, seconds / self.seconds(events)) for events, seconds, then in self._last]
        again = [SLOWER_YET * one if one > CHANGED else one for one in found]
        return again if len(again) == REMEMBERED else [*again, ASSUMED_STRETCH]
