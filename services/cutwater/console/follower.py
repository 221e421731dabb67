"""Follows one job in a thread, and holds what is known of it for the pages.

The thread reads, the pages ask. If the brokers do not answer, the pages keep the last picture and say since when.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from cutwater.console.kafka_reader import milestones_in, published_position
from cutwater.console.ports import JobReader, ViewReader
from cutwater.core.console.hot_keys import bytes_by_shard
from cutwater.core.console.job_picture import JobPicture
from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.monitoring.alert_rules import Limits
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Milestone
from cutwater.core.util.timestamps import moment_ms
from cutwater.operations.job_status import Read, apply_record

TICK_S = 1.0
AGAIN_S = 3.0
"""Pause after an error."""
CENSUS_EVERY = 30
"""Ticks between two questions for the census."""
HOLDS_EVERY = 3
"""Ticks between two looks at the candidates."""
CHUNK = 500
STOP_S = 3.0
STARTING, HISTORY, LIVE, AWAY = "starting", "reading history", "live", "away"


class JobFollower:
    """One job. `start` begins the thread; the pages read the picture with `reading`."""

    def __init__(
        self,
        reader: JobReader,
        view: ViewReader,
        limits: Limits,
        now_ms: Callable[[], int],
        tick_s: float = TICK_S,
    ) -> None:
        self.reader, self.view, self.limits = reader, view, limits
        self._now_ms, self._tick_s = now_ms, tick_s
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._picture: JobPicture | None = None
        self._state = STARTING
        self._problem = ""
        self._since_ms = now_ms()
        self._read_ms: int | None = None
        self._changes = 0
        self._ticks = 0
        self._history_read = False

    @property
    def version(self) -> int:
        """Changes whenever a page may have changed."""
        return self._changes + (self._picture.version if self._picture else 0)

    def start(self) -> None:
        threading.Thread(target=self._run, name="follower", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end; it may wait for a broker meanwhile."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def standing_json(self) -> dict[str, Any]:
        """Return whether the job's topics are read, and since when not."""
        return {
            "state": self._state,
            "problem": self._problem,
            "since_ms": self._since_ms,
            "read_ms": self._read_ms,
            "now_ms": self._now_ms(),
            "version": self.version,
        }

    @contextmanager
    def reading(self) -> Iterator[JobPicture]:
        """Hold the picture still. Raises UnavailableError before the first read, with its problem."""
        if not self._lock.acquire(timeout=5.0):
            raise UnavailableError("the console is busy with this job: try again")
        try:
            if self._picture is None:
                raise UnavailableError(self._problem or "the job's topics are being read: try again in a moment")
            yield self._picture
        finally:
            self._lock.release()

    def step(self) -> float:
        """Read what is new; return the seconds until the next step. Errors become the follower's state."""
        try:
            self._read()
        except CutwaterError as error:
            self._become(AWAY, str(error))
            return AGAIN_S
        self._read_ms = self._now_ms()
        self._become(LIVE, "")
        return self._tick_s

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                pause_s = self.step()
            except Exception as error:  # a page must say so: the thread has no other reader
                self._become(AWAY, f"unexpected: {error!r}; this is a bug of the console")
                pause_s = 10 * AGAIN_S
            self._stop.wait(pause_s)
        self.reader.close()
        self.view.close()

    def _read(self) -> None:
        if self._picture is None:
            picture = JobPicture(self.reader.status(), self.reader.job.shards.shards)
            with self._lock:
                self._picture = picture
        if not self._history_read:
            self._become(HISTORY, "")
            self._read_history(self._picture, self.reader.history(), self.reader.published())
            self._history_read = True
        self._read_new(self._picture)
        self._observe(self._picture)

    def _read_history(
        self, picture: JobPicture, milestones: Iterable[Milestone], published: Iterable[tuple[int, int]]
    ) -> None:
        left = iter(milestones)
        # In parts, so that pages need not wait for all of it.
        while (part := list(islice(left, CHUNK))) and not self._stop.is_set():
            with self._lock:
                picture.read_history(part)
        positions = list(published)
        with self._lock:
            picture.end_history()
            for sequence, at_ms in positions:
                picture.take_published(sequence, at_ms)

    def _read_new(self, picture: JobPicture) -> None:
        found = list(self.reader.poll(picture.status))
        if found:
            with self._lock:
                self._fold(picture, found)
        if picture.status.successor is not None:
            status = self.reader.status()
            with self._lock:
                picture.continue_with(status)

    def _fold(self, picture: JobPicture, found: list[Read]) -> None:
        job = picture.status.job
        for each in milestones_in(found, job):
            picture.take_milestone(each)
        for one in found:
            picture.take(apply_record(picture.status, one))
            if one.topic == topics.published(job) and (sequence := published_position(one.value)):
                picture.take_published(sequence, one.at_ms)

    def _observe(self, picture: JobPicture) -> None:
        found = self.reader.source_end(picture.status)
        sequence = self.view.sequence()
        now = self._now_ms()
        with self._lock:
            end, hidden = found or (None, 0)
            picture.see_end(end, now, self.limits.window_ms, hidden)
            picture.see_view(sequence, now)
        if self._ticks % HOLDS_EVERY == 0:
            self._read_candidates(picture)
        if self._ticks % CENSUS_EVERY == 0 and sequence:
            self._read_census(picture)
        self._ticks += 1

    def _read_candidates(self, picture: JobPicture) -> None:
        try:
            found = self.reader.candidates()
        except CutwaterError:
            return  # brokers that are away are noticed by the next poll, and this is tried again
        with self._lock:
            picture.see_candidates(found)

    def _read_census(self, picture: JobPicture) -> None:
        try:
            census = self.view.census()
            counted, at_ms = str(census["counted"]), moment_ms(str(census["counted"]))
            sizes = bytes_by_shard(census, picture.state.lanes)
        except (CutwaterError, KeyError, TypeError, ValueError):
            return  # none was taken yet, or the rehydrator is busy: the page says that there is none
        with self._lock:
            picture.see_census(counted, at_ms, sizes)

    def _become(self, state: str, problem: str) -> None:
        if (state, problem) != (self._state, self._problem):
            if state != self._state:
                self._since_ms = self._now_ms()
            self._state, self._problem = state, problem
            self._changes += 1
