"""Sends flights at a steady rate into one region after the other. Unacknowledged flights go to the next region."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.job.job import Job

WAIT_S = 4.0
"""The time after which an unacknowledged event counts as not delivered."""
TICK_S = 0.05
JOIN_S = 4 * WAIT_S


class Target(NamedTuple):
    region: str
    cluster: Cluster


class Feeder:
    """A thread that produces events, by their index in `events`. It stops once all are delivered."""

    def __init__(self, job: Job, events: Sequence[Mapping[str, Any]], per_second: int) -> None:
        self._job, self._events, self._per_second = job, events, per_second
        self._target: Target | None = None
        self._most = len(events)
        self._left = list(range(len(events) - 1, -1, -1))
        """The indexes still to be sent, the next one last."""
        self._on_the_way: set[int] = set()
        self._serves: Target | None = None
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self.delivered: dict[str, list[int]] = {}
        """By region: the indexes of acknowledged events, in order of acknowledgement."""
        self.refused: dict[str, list[int]] = {}
        """By region: the indexes of events that were sent and not acknowledged."""

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join(JOIN_S)

    def into(self, region: str, cluster: Cluster) -> None:
        """Send events to this region from now on, first those that the previous region did not acknowledge."""
        self.delivered.setdefault(region, [])
        self.refused.setdefault(region, [])
        self._target = Target(region, cluster)

    def up_to(self, most: int) -> None:
        """Send only the first `most` events, until the next call allows more."""
        self._most = most

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self.delivered.values()))

    @property
    def done(self) -> bool:
        return self.acknowledged == len(self._events)

    @property
    def waiting(self) -> bool:
        """True if every event that may be sent now is acknowledged."""
        return self.acknowledged >= min(self._most, len(self._events))

    @property
    def idle(self) -> bool:
        return self._serves is None

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        served: Target | None = None
        try:
            while not self.done and not self._ended.is_set():
                target = self._target
                if target is None or target is served:
                    self._ended.wait(TICK_S)
                    continue
                served = self._serves = target
                self._feed(target)
                self._serves = None
        except BaseException as error:  # raised again by `raise_error`
            self._error = error

    def _feed(self, target: Target) -> None:
        """Send until all are delivered, one is refused, or the region changes."""
        writer = EventWriter(target.cluster, self._job, wait_s=WAIT_S)
        refused = self.refused[target.region]
        before = len(refused)
        due, at = 0.0, time.monotonic()
        while target is self._target and len(refused) == before and not self._ended.is_set():
            if not self._left and not self._on_the_way:
                return
            # Events missed in one second are not made up for later.
            last, at = at, time.monotonic()
            due = min(due + (at - last) * self._per_second, self._per_second)
            due -= self._send(writer, target.region, int(due))
            writer.poll(TICK_S)
        self._give_back(writer, refused, before)

    def _send(self, writer: EventWriter, region: str, most: int) -> int:
        for number in range(most):
            if not self._left or self._left[-1] >= self._most:
                return number
            place = self._left[-1]
            if not writer.offer(writer.encoded(self._events[place]), self._note(region, place)):
                return number  # its bounded queue is full
            self._on_the_way.add(self._left.pop())
        return most

    def _note(self, region: str, place: int) -> Callable[[CutwaterError | None], None]:
        def acknowledged(error: CutwaterError | None) -> None:
            if place in self._on_the_way:
                self._on_the_way.discard(place)
                (self.delivered if error is None else self.refused)[region].append(place)

        return acknowledged

    def _give_back(self, writer: EventWriter, refused: list[int], before: int) -> None:
        """Queue undelivered events again, in the old order. Later answers to this writer are ignored."""
        # Events still in flight may have been written or not, as all unacknowledged ones.
        with suppress(UnavailableError):
            writer.flush()
        refused += sorted(self._on_the_way)
        self._on_the_way.clear()
        self._left += sorted(refused[before:], reverse=True)
