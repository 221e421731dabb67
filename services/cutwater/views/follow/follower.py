"""The follower, a thread that reads the commit stream and keeps a view at the newest milestone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Protocol

from cutwater.adapters.kafka.client import TIMEOUT_S, partition_count, wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.hanging_transaction import SILENT_S, HangingTransaction
from cutwater.core.errors import DiskFullError, DivergenceError, ProtocolError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.lineage import UNKNOWN
from cutwater.core.protocol.records import Heartbeat, Milestone
from cutwater.core.state.backlog import Backlog, Jump, MissedMilestone, Step
from cutwater.core.state.partition_share import Partitions
from cutwater.core.util.topic_absence import TopicAbsence
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import STALL_S, Ranges, Stopped
from cutwater.views.follow.applier import CHUNK_ROWS, Applied, Applier
from cutwater.views.follow.milestone_feed import Feed, OwnStream, Stream
from cutwater.views.query.change_feed import Changes
from cutwater.views.query.view import State, Status, View
from cutwater.views.store.store import Store

POLL_S = 0.2
RETRY_S = 1.0
FULL_S = 1.0
"""Pause between checks whether a full disk has room again."""
PROBE_S = 1.0
_BY_ITSELF = "The view continues by itself once there is room"


class Observer(Protocol):
    """Metrics of the follower."""

    def applied(self, milestone: Milestone, done: Applied) -> None: ...

    def backlog(self, milestones: int) -> None: ...

    def retried(self) -> None: ...

    def diverged(self) -> None: ...


class Follower:
    """One view's writer. Construct it, `run` it in a thread, `stop` it from any other."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        generation: Generation,
        store: Store,
        view: View,
        now_ms: Callable[[], int],
        observer: Observer,
        wait_s: float = 60.0,
        stall_s: float = STALL_S,
        chunk_rows: int = CHUNK_ROWS,
        event: Callable[[], threading.Event] = threading.Event,
        partitions: Partitions | None = None,
        bulk: Callable[[Store, Callable[[], bool]], BulkLoader] | None = None,
        prepare: Callable[[Callable[[], bool]], None] | None = None,
        evict: Callable[[Milestone], int | None] = lambda _: None,
        changes: Changes | None = None,
        stream: Stream | None = None,
        silent_s: float = SILENT_S,
    ) -> None:
        """`partitions`: those that the store holds; None for all.

        `bulk`: creates the bulk loader for a store and a callable that says whether to stop. `prepare`: brings an
        empty store to a milestone without the changelog, once the brokers answer; its argument says whether to
        stop. `evict`: as in `Applier`. `changes`: receives the rows of each shown milestone. `stream`: the commit
        stream; None for the region's own. `silent_s`: the silence after which to check for a hanging transaction.
        """
        self._bulk = bulk
        self._evict = evict
        self._changes = changes or Changes(lambda: view.milestone)
        self._cluster = cluster
        self._job = job
        self._store = store
        self._view = view
        self._now_ms = now_ms
        self._observer = observer
        self.wait_s = wait_s
        """How long `run` waits for the brokers when it starts. Infinite: beside a view that is shown."""
        self._absences = TopicAbsence(TIMEOUT_S)
        self._stall_s = stall_s
        self._chunk_rows = chunk_rows
        self._stream = stream or OwnStream(job.name)
        self._hanging = HangingTransaction(cluster, self._stream.topic, "commit-signal", silent_s)
        self._changelog = topics.changelog(job.name, generation)
        self._overtaken = ""
        self._partitions = partitions
        self._stop = event()
        self.failure: ProtocolError | None = None
        """The protocol error that ended the following."""
        self.successor: Milestone | None = None
        """The first milestone of another generation, which ended the following."""
        self._generation = generation
        self._prepare = prepare
        self._backlog = self._make_backlog()

    def _make_backlog(self) -> Backlog:
        store = self._store
        floor = store.applying.milestone.sequence if store.applying else 0
        lineage = (
            store.lineage if store.applied else UNKNOWN
        )  # a view without milestones reads the stream from its start
        return Backlog(self._generation, store.applied, floor, lineage=lineage, hands_over=True)

    def stop(self) -> None:
        """End `run` within about 1 s, or after the timeout of a request to the brokers."""
        self._stop.set()

    def run(self) -> None:
        """Follow until stopped, or until another generation has taken over (`successor`). A protocol error ends
        the following; the view shows its last good milestone and the reason. A full disk is waited for. Raises
        CutwaterError if the process must end: no broker or topic at the start, or another disk error."""
        try:
            self._connect()
            if self._prepare and self._store.applied is None and not self._stop.is_set():
                self._prepare_with_room(self._prepare)
                self._backlog = self._make_backlog()
                if self._store.applied:
                    self._view.show(self._store.applied)
            while self._goes_on:
                self._session()
        except Stopped:
            pass
        except ProtocolError as error:
            self.failure = error
            if isinstance(error, DivergenceError):
                self._observer.diverged()
            self._set_state(State.STOPPED, str(error))

    def _prepare_with_room(self, prepare: Callable[[Callable[[], bool]], None]) -> None:
        """Prepare, and retry while the disk is full. `prepare` frees what it used."""
        while not self._stop.is_set():
            self._set_state(State.RESTORING, "looking for a snapshot")
            try:
                prepare(self._stop.is_set)
                return
            except DiskFullError as error:
                self._set_state(State.FULL, f"{error} {_BY_ITSELF}")
                self._stop.wait(FULL_S)

    @property
    def _goes_on(self) -> bool:
        return self.successor is None and not self._stop.is_set()

    def _connect(self) -> None:
        deadline = time.monotonic() + self.wait_s
        while not self._stop.is_set():
            try:
                wait_for_broker(self._cluster, PROBE_S)
                self._require_topic(self._stream.topic)
                return
            except UnavailableError as error:
                if time.monotonic() > deadline:
                    raise UnavailableError(f"{error} (tried for {self.wait_s:g} s)") from None
                self._set_state(State.WAITING, str(error))
                self._stop.wait(PROBE_S)

    def _require_topic(self, topic: str) -> None:
        """Raise UsageError if a topic does not exist. While a view is shown, that is believed after a time only: a
        broker that has just restarted may say it of every topic. Until then UnavailableError is raised."""
        try:
            partition_count(self._cluster, topic)
        except UsageError as error:
            shown = self._view.milestone is not None or self.wait_s == inf
            if not shown or self._absences.record_missing(topic, time.monotonic()):
                raise
            raise UnavailableError(str(error)) from None
        except UnavailableError:
            self._absences.reset(topic)
            raise
        self._absences.reset(topic)

    def _session(self) -> None:
        """Follow until stopped or until something is unavailable; then return after a pause."""
        feed: Feed | None = None
        full: DiskFullError | None = None
        ranges = Ranges(self._cluster, self._changelog, self._stop.is_set, self._stall_s, self._partitions)
        bulk = self._bulk(self._store, self._stop.is_set) if self._bulk else None
        applier = Applier(
            self._store,
            self._job,
            ranges,
            self._now_ms,
            self._chunk_rows,
            bulk=bulk,
            evict=self._evict,
            gathering=self._changes.gathering,
        )
        try:
            feed = self._stream.open(self._cluster, self._backlog.known)
            self._backlog.reopened(feed.start)
            self._require_topic(self._changelog)  # a missing topic ends the process
            while self._goes_on:
                self._advance(feed, applier)
        except UnavailableError as error:
            self._observer.retried()
            self._set_state(State.WAITING, str(error))
            self._stop.wait(RETRY_S)
        except DiskFullError as error:
            full = error
        finally:
            ranges.close()
            if feed is not None:
                feed.close()
        if full is not None:
            self._wait_for_room(full)

    def _wait_for_room(self, error: DiskFullError) -> None:
        """Probe the disk. Retrying the milestone instead would read all of it each time."""
        self._set_state(State.FULL, f"{error} {_BY_ITSELF}")
        while not self._stop.wait(FULL_S):
            with suppress(DiskFullError):
                self._store.probe()
                return

    def _advance(self, feed: Feed, applier: Applier) -> None:
        now_ms = self._now_ms()
        successor = self._backlog.successor
        if successor and self._backlog.over(now_ms):
            self._set_state(
                State.RESTORING, f"generation {successor.generation} is promoted, but its view is not built yet"
            )
            self.successor = successor
            return
        plan = self._backlog.plan(now_ms)
        if plan is not None:
            self._apply(plan, applier)
        if not self._backlog.full:
            self._read(feed, 0.0 if plan else POLL_S)
        self._observer.backlog(len(self._backlog))

    def _read(self, feed: Feed, timeout_s: float) -> None:
        for record in feed.poll(timeout_s):
            self._hanging.reset()
            if isinstance(record, Heartbeat):
                self._view.record_heartbeat(record)
            elif isinstance(record, MissedMilestone):
                self._backlog.missed(record.entry)
            else:
                self._backlog.add(record)
        if self._backlog.lineage not in (self._store.lineage, UNKNOWN):
            self._store.remember(self._backlog.lineage)
        if feed.at_end and not self._backlog.successor:
            self._backlog.end_of_stream()
            self._hanging.check()
            if trouble := f"{feed.topic}: {feed.trouble}" if feed.trouble else self._hanging.text:
                self._set_state(State.WAITING, trouble)
            elif self._overtaken:
                self._set_state(State.RESTORING, self._overtaken)
            else:
                self._set_state(
                    State.FOLLOWING, "" if self._view.milestone else "the commit stream has no milestone yet"
                )
                self._view.caught_up |= not len(self._backlog)

    def _apply(self, plan: Step | Jump, applier: Applier) -> None:
        token = plan.to.milestone.token
        if isinstance(plan, Jump):
            self._set_state(State.RESTORING, f"restoring milestone {token}")
        try:
            done = applier.apply(plan)
        except Overtaken as overtaken:
            self._backlog.mark_overtaken(plan.to, overtaken.looked)
            if overtaken.looked:
                self._overtaken = f"compaction has overtaken milestone {token}: waiting for a later one"
            return
        self._overtaken = ""
        self._view.show(plan.to)
        changed = done.rows if done.rows is None else self._view.changed_windows(done.rows)
        self._changes.show(plan.to.milestone, changed)
        self._backlog.mark_applied(plan.to)
        self._observer.applied(plan.to.milestone, done)

    def _set_state(self, state: State, reason: str = "") -> None:
        self._view.status = Status(state, reason)
        self._view.caught_up &= state is State.FOLLOWING
