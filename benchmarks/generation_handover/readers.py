"""Who reads and writes meanwhile: one asks the API all the time, one reads the output, one makes events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from benchmarks.generation_handover.gaps import Sight
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client import Change, committed
from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Token

ASK_S, ANSWER_S = 0.02, 30.0
TICK_S = 0.05
END_S = 60.0


class Running(threading.Thread):
    """Does something until it is told to end; what went wrong is raised for who asks."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stop_asked = threading.Event()
        self._failure: CutwaterError | httpx.HTTPError | None = None

    def run(self) -> None:
        try:
            self.work()
        except (CutwaterError, httpx.HTTPError) as error:
            self._failure = error

    def work(self) -> None:
        """Until `stopping`."""
        raise NotImplementedError

    def stopping(self) -> bool:
        return self._stop_asked.is_set()

    def check(self) -> None:
        """Raise UnavailableError where it has ended by itself."""
        if self._failure is not None:
            raise UnavailableError(f"{self.name}: {self._failure}")

    def end(self) -> None:
        """Raises UnavailableError where it has ended by itself before, or does not end."""
        self.stop()
        self.check()
        if self.is_alive():
            raise UnavailableError(f"{self.name} has not ended within {END_S:.0f} s")

    def stop(self) -> None:
        """The same whatever has come of it."""
        self._stop_asked.set()
        self.join(END_S)


class OfTheApi(Running):
    """Asks for one key's rows again and again."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        super().__init__("the reader of the API")
        self._url = url
        self._headers = dict(headers)
        self.seen: list[Sight] = []
        self.answers: list[tuple[float, float]] = []
        """Each with its moment, and how long it took."""
        self.faults: list[str] = []

    def work(self) -> None:
        with httpx.Client(timeout=ANSWER_S, headers=self._headers) as client:
            while not self._stop_asked.wait(ASK_S):
                asked_s = time.monotonic()
                answer = client.get(self._url)
                self.answers.append((asked_s, time.monotonic() - asked_s))
                if answer.status_code != httpx.codes.OK:
                    self.faults.append(f"HTTP {answer.status_code}: {answer.text}")
                    continue
                self._saw(Token.parse(answer.json()["milestone"]["token"]))

    def _saw(self, token: Token) -> None:
        last = self.seen[-1].token if self.seen else None
        if last is not None and token.sequence < last.sequence:
            self.faults.append(f"{token} was shown after {last}")
        if last != token:
            self.seen.append(Sight(time.monotonic(), token))


class OfTheOutput(Running):
    """Takes whole milestones from the output, and looks whether one is missing or a row is said twice."""

    def __init__(self, job: Job, cluster: Cluster, after: Token) -> None:
        """`after`: there each key had one event."""
        super().__init__("the reader of the output")
        self._job = job
        self._cluster = cluster
        self._after = after
        self._events: dict[str, int] = {}
        self.seen: list[Sight] = []
        self.faults: list[str] = []

    def work(self) -> None:
        before = self._after.sequence
        for one in committed(self._job, self._cluster, after=self._after, stop=self.stopping):
            self.seen.append(Sight(time.monotonic(), one.token))
            if one.first_sequence != before + 1:
                self.faults.append(f"{one.token} begins with {one.first_sequence}, behind {before}")
            before = one.token.sequence
            for change in one.changes:
                self._take(one.token, change)

    def _take(self, token: Token, change: Change) -> None:
        events = change.values["events"]
        if change.kind != "update" or events <= self._events.get(change.key, 1):
            self.faults.append(f"{token} says {change.kind} of {change.key}, with {events} events")
        self._events[change.key] = events


class Load(Running):
    """Events at a steady rate."""

    def __init__(self, writer: EventWriter, rate: int, event: Callable[[int], Mapping[str, Any]]) -> None:
        super().__init__("the writer of events")
        self._writer = writer
        self._rate = rate
        self._event = event
        self.made = 0

    def work(self) -> None:
        since_s = time.monotonic()
        while not self._stop_asked.wait(TICK_S):
            for number in self._due(time.monotonic() - since_s):
                self._writer.send(self._event(number))
                self.made = number + 1
        self._writer.flush()

    def _due(self, passed_s: float) -> Iterator[int]:
        yield from range(self.made, int(passed_s * self._rate))
