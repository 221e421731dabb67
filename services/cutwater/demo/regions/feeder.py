"""Flights at a steady pace, into one region after the other: what one did not acknowledge goes to the next."""

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
"""How long an event may go unacknowledged before it counts as not delivered."""
TICK_S = 0.05
JOIN_S = 4 * WAIT_S


class Target(NamedTuple):
    """A region that takes flights now."""

    region: str
    cluster: Cluster


class Feeder:
    """A thread that produces events, by their place in `events`. It stops by itself once all are delivered."""

    def __init__(self, job: Job, events: Sequence[Mapping[str, Any]], per_second: int) -> None:
        self._job, self._events, self._per_second = job, events, per_second
        self._target: Target | None = None
        self._most = len(events)
        self._left = list(range(len(events) - 1, -1, -1))
        """Still to be sent, the next one last."""
        self._on_the_way: set[int] = set()
        self._serves: Target | None = None
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self.delivered: dict[str, list[int]] = {}
        """By region: the places of the events that its brokers have acknowledged, in that order."""
        self.refused: dict[str, list[int]] = {}
        """By region: the places of those that were sent to it and not acknowledged."""

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join(JOIN_S)

    def into(self, region: str, cluster: Cluster) -> None:
        """From now on events go there, first those that the one before did not acknowledge."""
        self.delivered.setdefault(region, [])
        self.refused.setdefault(region, [])
        self._target = Target(region, cluster)

    def up_to(self, most: int) -> None:
        """Send no event behind the first `most` before more are allowed."""
        self._most = most

    @property
    def acknowledged(self) -> int:
        """By whichever region."""
        return sum(map(len, self.delivered.values()))

    @property
    def done(self) -> bool:
        """Is every event acknowledged?"""
        return self.acknowledged == len(self._events)

    @property
    def waiting(self) -> bool:
        """Is every event acknowledged that may be sent now?"""
        return self.acknowledged >= min(self._most, len(self._events))

    @property
    def idle(self) -> bool:
        """Is nothing on its way?"""
        return self._serves is None

    def raise_error(self) -> None:
        """Raise what ended the thread, if anything did."""
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
        except BaseException as error:  # raised again where the owner looks
            self._error = error

    def _feed(self, target: Target) -> None:
        """Until all are delivered there, one was not, or another region is named."""
        writer = EventWriter(target.cluster, self._job, wait_s=WAIT_S)
        refused = self.refused[target.region]
        before = len(refused)
        due, at = 0.0, time.monotonic()
        while target is self._target and len(refused) == before and not self._ended.is_set():
            if not self._left and not self._on_the_way:
                return
            # What could not be sent in its second is not made up for later.
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
        """What was not delivered is to be sent again, in the old order. Nothing of this writer counts any more."""
        # What is still on the way then may have been taken or not, like all that was not acknowledged.
        with suppress(UnavailableError):
            writer.flush()
        refused += sorted(self._on_the_way)
        self._on_the_way.clear()
        self._left += sorted(refused[before:], reverse=True)
