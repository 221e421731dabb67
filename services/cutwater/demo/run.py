"""The demonstration from end to end: start, replay, wait, compare, show."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
from rich.console import Console
from rich.live import Live

from cutwater.adapters.producing import EventWriter
from cutwater.adapters.settings import load_settings
from cutwater.adapters.streams import source_end
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.demo import flights
from cutwater.demo.jobfile import with_lateness
from cutwater.demo.progress import Follower, Progress
from cutwater.demo.verdict import verdict
from cutwater.local import running
from cutwater.local.stack import Stack, started
from cutwater.local.supervisor import stop_on_signals

CHUNK = 5_000
STUCK_SECONDS = 180.0
"""Give up when neither an epoch nor a milestone nor the view has moved for so long."""

INTERRUPTED = 130


def run(days: int, job_file: Path, data_dir: Path, console: Console, lateness: str | None = None) -> int:
    """Returns 0 when every served row equals DuckDB's, 1 when any differs, 130 when interrupted.

    `lateness` takes the place of the job file's. Raises UsageError when it is no duration.
    """
    begun = time.monotonic()
    _empty(data_dir)
    if lateness is not None:
        job_file = with_lateness(job_file, lateness, data_dir)
    events = flights.events(days)
    settings = load_settings().model_copy(update={"data_dir": data_dir})
    with stop_on_signals() as stop:
        stack = Stack(job_file, settings, lambda line: console.print(line, markup=False))
        with started(stack, stop) as description:
            if description is None:
                return INTERRUPTED
            console.print(f"{len(events):,} events of {days} days; logs and state in {data_dir}")
            with Watch(stack) as watch:
                if not Replay(stack, console, watch, stop).all(events):
                    return INTERRUPTED
                code = verdict(stack, events, data_dir, console)
        console.print(f"took {time.monotonic() - begun:.0f} s in all")
    return code


def _empty(data_dir: Path) -> None:
    if running.find(data_dir):
        raise UsageError(f"a stack runs on {data_dir}; end it with 'cutwater down --data-dir {data_dir}'")
    if data_dir.exists():
        if any(data_dir.iterdir()) and not (data_dir / "logs").is_dir():
            raise UsageError(f"{data_dir} is not empty and not a demonstration's folder; name another --data-dir")
        shutil.rmtree(data_dir)


class Watch:
    """Runs the supervisor beside the demonstration, and keeps the error that ended it."""

    def __init__(self, stack: Stack) -> None:
        self._stop = threading.Event()
        self._stack = stack
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._stack.supervisor.run(self._stop)
        except BaseException as error:  # raised again where the demonstration looks
            self._error = error


class Replay:
    """Produces the events and follows them to the view."""

    def __init__(self, stack: Stack, console: Console, watch: Watch, stop: threading.Event) -> None:
        self._stack = stack
        self._console = console
        self._watch = watch
        self._stop = stop
        self._progress = Progress()
        self._api = httpx.Client(base_url=stack.api_url, headers=stack.api_headers, timeout=10.0)

    def all(self, events: pd.DataFrame) -> bool:
        """Everything up to a view that holds every event; False when interrupted."""
        job = self._stack.job
        closing = flights.closing_event(events, lateness_ms=job.lateness_ms, window_ms=job.window.size_ms)
        follower = Follower(self._stack.cluster, job.name, self._progress)
        writer = EventWriter(self._stack.cluster, job)
        self._progress.to_produce = len(events) + 1
        begun = time.monotonic()
        try:
            with Live(console=self._console, auto_refresh=False) as live:
                ticks = self._steps(writer, events, closing)
                for _ in ticks:
                    follower.update()
                    self._look_at_view()
                    live.update(self._progress.table(time.monotonic() - begun), refresh=True)
                    self._watch.raise_error()
                    if self._stop.is_set():
                        return False
        finally:
            follower.close()
            self._api.close()
        return True

    def _steps(self, writer: EventWriter, events: pd.DataFrame, closing: Mapping[str, Any]) -> Iterator[None]:
        """Produce in chunks, never far ahead of the job; each yield lets the caller look.

        Were the whole backlog there at once, an epoch would take the same share of each partition; partitions
        of other seasons would drift apart, and with them the times that one epoch sees: false lateness.
        """
        progress = self._progress
        progress.phase = "replaying"
        lead_max = self._stack.job.max_events_per_epoch
        for first in range(0, len(events), CHUNK):
            progress.produced += writer.write_all(flights.records(events.iloc[first : first + CHUNK]))
            yield
            yield from self._until(lambda: progress.produced - progress.processed <= max(0, lead_max - CHUNK))
        progress.phase = "waiting for the last epochs"
        yield from self._until(lambda: progress.committed >= progress.produced)
        # Only now: its time is far ahead, and whatever comes after it in an epoch of its own would be late.
        progress.produced += writer.write_all([closing])
        progress.phase = "closing the last windows"
        yield from self._until(self._whole)

    def _until(self, done: Callable[[], bool]) -> Iterator[None]:
        changes, since = -1, time.monotonic()
        while not done():
            if self._progress.changes != changes:
                changes, since = self._progress.changes, time.monotonic()
            elif time.monotonic() - since > STUCK_SECONDS:
                raise UnavailableError(
                    f"nothing has moved for {STUCK_SECONDS:.0f} s while {self._progress.phase}; "
                    f"see the logs: {self._stack.describe().logs}"
                )
            yield

    def _whole(self) -> bool:
        """Is every window closed, and does the view show that milestone?"""
        job, milestone = self._stack.job, self._progress.milestone
        end = source_end(self._stack.cluster, job.topic)
        if milestone is None or not milestone.source_cut.covers(end):
            return False
        return self._progress.view == str(milestone.token)

    def _look_at_view(self) -> None:
        try:
            answer = self._api.get("/v1/milestone")
            shown = answer.json().get("token", "-") if answer.is_success else "-"
        except (httpx.HTTPError, ValueError):
            shown = "-"  # it may be restarting; what matters is what it shows in the end
        if shown != self._progress.view:
            self._progress.view = shown
            self._progress.changes += 1
