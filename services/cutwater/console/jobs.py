"""The jobs that run now, each with its follower. Followers start and end as jobs come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from cutwater.console.follower import JobFollower
from cutwater.console.on_demand import OnDemand
from cutwater.console.ports import JobPlace, RunningJob
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.monitoring.alerts import Alert

KNOWN_S = 1.0
"""How long the running files are not read again."""
JOBS_MAX = 50
NONE_RUNS = "No stack runs on this data folder. Start one with 'cutwater up'."


class UnknownJobError(UsageError):
    """No job of that name runs."""


class FollowedJob:
    """One job of the stack, with its follower and the answers that are kept for a while."""

    def __init__(self, running: RunningJob, follower: JobFollower) -> None:
        self.running, self.follower = running, follower
        self.kept = OnDemand()

    @property
    def place(self) -> JobPlace:
        return self.running.place

    @property
    def alerts(self) -> tuple[Alert, ...]:
        return self.running.alerts


class Jobs:
    """`running`: returns what runs. `follow`: makes the follower of a job; may raise CutwaterError."""

    def __init__(
        self,
        running: Callable[[], Sequence[RunningJob]],
        follow: Callable[[JobPlace], JobFollower],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._running, self._follow, self._clock_s = running, follow, clock_s
        self._lock = threading.Lock()
        self._followed: dict[str, FollowedJob] = {}
        self._waiting: dict[str, str] = {}
        """Jobs that cannot be followed, with the reason."""
        self._problem = ""
        self._read_s = float("-inf")

    def find(self, name: str) -> FollowedJob:
        """Return a job. Raises UnknownJobError, or UnavailableError if it cannot be followed yet."""
        self._refresh()
        if name in self._followed:
            return self._followed[name]
        if name in self._waiting:
            raise UnavailableError(self._waiting[name])
        raise UnknownJobError(self._problem or f"No job of that name runs here. {self._names()}")

    def list_json(self) -> dict[str, Any]:
        """Return all jobs that run, and the reason if there are none."""
        self._refresh()
        followed = [
            {"job": name, "api_url": one.place.api_url, **one.follower.standing_json()}
            for name, one in self._followed.items()
        ]
        waiting = [{"job": name, "state": "ended", "problem": why} for name, why in self._waiting.items()]
        found = sorted([*followed, *waiting], key=lambda one: str(one["job"]))
        return {"jobs": found, "problem": self._problem or ("" if found else NONE_RUNS)}

    def close(self) -> None:
        """End all followers."""
        with self._lock:
            for one in self._followed.values():
                one.follower.stop()
            self._followed.clear()

    def _refresh(self) -> None:
        if not self._lock.acquire(timeout=5.0):
            raise UnavailableError("the console is busy: try again")
        try:
            if self._clock_s() - self._read_s >= KNOWN_S:
                self._read_running()
                self._read_s = self._clock_s()
        finally:
            self._lock.release()

    def _read_running(self) -> None:
        try:
            found = {one.place.job: one for one in list(self._running())[:JOBS_MAX]}
            self._problem = ""
        except CutwaterError as error:
            self._problem = str(error)
            return
        self._waiting = {}
        for name in list(self._followed):
            if name not in found or found[name].place.ended:
                self._followed.pop(name).follower.stop()
        for name, one in found.items():
            self._update(name, one)

    def _update(self, name: str, one: RunningJob) -> None:
        known = self._followed.get(name)
        if known is not None and known.place.same_place(one.place):
            known.running = one
        elif one.place.ended:
            self._waiting[name] = f"Job {name} has ended, at {one.place.ended}"
        elif not one.place.ready and known is None:
            self._waiting[name] = f"Job {name} is starting."
        else:
            self._begin(name, one)

    def _begin(self, name: str, one: RunningJob) -> None:
        try:
            follower = self._follow(one.place)
        except CutwaterError as error:
            self._waiting[name] = str(error)
            return
        if before := self._followed.get(name):
            before.follower.stop()
        self._followed[name] = FollowedJob(one, follower)
        follower.start()

    def _names(self) -> str:
        return f"There are: {', '.join(sorted(self._followed))}." if self._followed else NONE_RUNS
