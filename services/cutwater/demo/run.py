"""The demonstration end to end: start, replay, wait, compare, show."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pandas as pd

from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.runtime.terminal import Terminal
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.errors import UnavailableError
from cutwater.demo import flights
from cutwater.demo.progress import Follower, Progress
from cutwater.demo.stages import Stages
from cutwater.demo.target import Target
from cutwater.demo.verdict import verdict
from cutwater.local.processes.supervisor import stop_on_signals

CHUNK = 5_000
STUCK_SECONDS = 180.0
"""The time without a new epoch, milestone or view, after which the run fails."""

INTERRUPTED = 130

Targeted = Callable[[threading.Event], AbstractContextManager[Target | None]]


def run(days: int, console: Terminal, targeted: Targeted, pictures: Path) -> int:
    """Return 0 if every served row equals DuckDB's, 1 if any differs, 130 if interrupted. `targeted`: given the
    event that interrupts, opens the stack that processes the flights. `pictures`: the plot's folder."""
    stages = Stages(console.print, time.monotonic)
    events = flights.events(days)
    stages.report_done(f"{len(events):,} events of {days} days read")
    with stop_on_signals() as stop, targeted(stop) as target:
        if target is None:
            return INTERRUPTED
        stages.report_done(f"stack ready ({target.look})")
        if not Replay(target, console, stop, stages).all(events):
            return INTERRUPTED
        code = verdict(target, events, pictures, console)
        stages.report_done("compared with DuckDB, row by row")
    stages.report_done("stack ended")
    stages.end()
    return code


class Replay:
    def __init__(self, target: Target, console: Terminal, stop: threading.Event, stages: Stages) -> None:
        self._target = target
        self._stages = stages
        self._console = console
        self._stop = stop
        self._progress = Progress()
        self._views = [
            httpx.Client(base_url=url, headers=target.headers, timeout=10.0, **direct_options(url))
            for url in target.views
        ]

    def all(self, events: pd.DataFrame) -> bool:
        """Produce everything and wait until each view holds every event; return False if interrupted."""
        job = self._target.job
        closing = flights.closing_event(events, lateness_ms=job.lateness_ms, window_ms=job.window.size_ms)
        follower = Follower(self._target.cluster, job.name, self._progress)
        writer = EventWriter(self._target.cluster, job)
        self._progress.to_produce = len(events) + 1
        begun = time.monotonic()
        try:
            with self._console.live() as show:
                ticks = self._steps(writer, events, closing)
                for _ in ticks:
                    follower.update()
                    self._look_at_views()
                    show(self._progress.table(time.monotonic() - begun))
                    self._target.check()
                    if self._stop.is_set():
                        return False
        finally:
            follower.close()
            for view in self._views:
                view.close()
        self._stages.report_done("last windows closed, and shown by every view")
        return True

    def _steps(self, writer: EventWriter, events: pd.DataFrame, closing: Mapping[str, Any]) -> Iterator[None]:
        """Produce in chunks, close behind the job; each yield lets the caller check.

        With the whole backlog on the topic an epoch would take the same share of each partition. Partitions with
        other seasons would drift apart, and an epoch would see times far apart: false lateness.
        """
        progress = self._progress
        progress.phase = "replaying"
        lead_max = self._target.job.max_events_per_epoch
        for first in range(0, len(events), CHUNK):
            progress.produced += writer.write_all(flights.flight_records(events.iloc[first : first + CHUNK]))
            yield
            yield from self._until(lambda: progress.produced - progress.processed <= max(0, lead_max - CHUNK))
        self._stages.report_done("events replayed", later=True)
        progress.phase = "waiting for the last epochs"
        yield from self._until(lambda: progress.committed >= progress.produced)
        self._stages.report_done("last epochs committed", later=True)
        # Only now: its time is far ahead, and any event in a later epoch would be late.
        progress.produced += writer.write_all([closing])
        progress.phase = "closing the last windows"
        yield from self._until(self._is_complete)

    def _until(self, done: Callable[[], bool]) -> Iterator[None]:
        changes, since = -1, time.monotonic()
        while not done():
            if self._progress.changes != changes:
                changes, since = self._progress.changes, time.monotonic()
            elif time.monotonic() - since > STUCK_SECONDS:
                raise UnavailableError(
                    f"no progress for {STUCK_SECONDS:.0f} s while {self._progress.phase}; {self._target.look}"
                )
            yield

    def _is_complete(self) -> bool:
        """Return whether every window is closed, and all views show that milestone."""
        job, milestone = self._target.job, self._progress.milestone
        end = source_end(self._target.cluster, job.topic)
        if milestone is None or not milestone.source_cut.covers(end):
            return False
        return self._progress.view == str(milestone.token)

    def _look_at_views(self) -> None:
        shown = " ".join(sorted({self._shown(view) for view in self._views}))
        if shown != self._progress.view:
            self._progress.view = shown
            self._progress.changes += 1

    def _shown(self, view: httpx.Client) -> str:
        try:
            answer = view.get("/v1/milestone")
            return str(answer.json().get("token", "-")) if answer.is_success else "-"
        except (httpx.HTTPError, ValueError):
            return "-"  # the rehydrator may be restarting; only its last answer counts
