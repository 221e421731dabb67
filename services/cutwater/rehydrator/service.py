"""The rehydrator: a view that follows the commit stream, and its HTTP API. The composition root of the service.

python -m cutwater.rehydrator JOBFILE
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.access import BrowserGuard, open_to_others
from cutwater.adapters.http.server import API_BOUNDS, HttpMetrics, HttpServer, listen
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.alerts import write_end_alert
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.adapters.topics.recovery_log import record_load
from cutwater.core.errors import DiskFullError, MachineError, ProtocolError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.operations.service_main import run_service
from cutwater.rehydrator.generation.earlier_view import open_earlier_view
from cutwater.rehydrator.generation.first_generation import choose_generation
from cutwater.rehydrator.generation.preload import CandidatePreloader
from cutwater.rehydrator.generation.promotion_poll import PromotionPoll
from cutwater.rehydrator.generation.served_generation import ServedGeneration
from cutwater.rehydrator.generation.switch import GenerationRouter
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.rehydrator.metrics.rocksdb import StoreMetrics
from cutwater.rehydrator.metrics.state_size import SizeMetrics
from cutwater.views.query.view import State, Status
from cutwater.views.store.folders import remove_ahead, remove_earlier
from cutwater.views.store.rocksdb_tuning import Figures

STOP_S = 3.0
"""Time that the API and the follower each get to end."""
KEPT_S, KEPT_FOR_PEERS_S = 5.0, 600.0
"""Time that an earlier generation's view stays after its last answer: peers may switch later."""
_LOOK_S = 0.2


class Rehydrator:
    """One view served, and after a promotion the next generation's; API and views run in threads. Only the main
    thread decides which one is shown: it calls `_look` again and again.
    """

    def __init__(self, job: Job, settings: Settings, log: Any) -> None:
        """Bind the port and open the folder. Raises MachineError or UsageError if that fails."""
        self._log = log
        self._job, self._settings = job, settings
        self._jobs = GenerationJobs.on(settings.cluster, job)
        self._told = False
        self._stop, self._awake = threading.Event(), threading.Event()
        self._listener = _listener(settings.host, settings.port)
        self._metrics = metrics = Metrics()
        latest = self._served(job, settings, first=True)
        before = (
            None if latest.view.milestone else open_earlier_view(latest.folder, job, settings, self._served, log)
        )
        self._shown = before or latest
        self._coming = latest if before else None
        """The view of a promoted generation that has no milestone to show yet."""
        self._past: list[tuple[ServedGeneration, float]] = []
        """Earlier generations, with the time they were replaced: for requests in progress, and for peers."""
        self._tidy = False
        self._refused: Generation | None = None
        """Promoted, but these settings cannot serve it."""
        self._lookout = PromotionPoll(settings.cluster, job.name, self._stopped_generation)
        report = partial(record_load, "rehydrator", job.name, settings.cluster, log)
        self._ahead = CandidatePreloader(job, settings, self._settled, self._full, log, report=report)
        self._front = GenerationRouter(self._shown.generation_app)
        metrics.watch(lambda: self._shown.view, now_ms)
        metrics.watch_changes(lambda: self._shown.changes)
        metrics.registry.register(StoreMetrics(self._figures))
        metrics.registry.register(SizeMetrics(lambda: self._shown.sized.census.counted))
        self._server = self._http(self._listener.getsockname()[0])
        self._fatal: BaseException | None = None

    def _http(self, address: str) -> HttpServer:
        """`address`: the bound one, in digits. Each generation's application checks the token itself."""
        settings = self._settings
        token = settings.api_token.get_secret_value()
        if open_to_others(address, token):
            self._log.warning(
                "the API is open to the network without a token: set CUTWATER_API_TOKEN", host=settings.host
            )
        app = self._front if token else BrowserGuard(self._front, settings.api_names, address)
        return HttpServer(app, self._listener, API_BOUNDS, HttpMetrics(self._metrics.registry))

    def _served(self, job: Job, settings: Settings, first: bool = False) -> ServedGeneration:
        shown, wake = (lambda: self._front.shown), self._awake.set
        return ServedGeneration(job, settings, self._metrics, self._log, shown, wake, first)

    def _figures(self) -> Figures | None:
        return self._shown.store.figures()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def _at_work(self) -> ServedGeneration:
        return self._coming or self._shown

    def stop(self, *_signal: object) -> None:
        """End `run` within a few seconds."""
        self._stop.set()  # and no more: a signal may come while this thread holds the lock of `_awake`

    def run(self) -> None:
        """Serve until stopped. Raises the error that ended a follower or the API."""
        api = threading.Thread(target=self._guarded, args=(self._serve, True), name="api", daemon=True)
        api.start()
        self._at_work.start_threads(self._guarded, alone=self._coming is None)
        threading.Thread(target=self._guarded, args=(self._lookout.run,), name="lookout", daemon=True).start()
        # A replica's candidates are on no topic here, and max_bytes is enforced milestone by milestone.
        if self._settings.preload and not self._settings.replica_of and not self._job.max_bytes:
            threading.Thread(target=self._guarded, args=(self._ahead.run,), name="ahead", daemon=True).start()
        else:
            with suppress(OSError):  # it only uses disk space
                remove_ahead(self._shown.folder, None)
        self._log.info("serving", port=self.port)
        self._guarded(self._watch)
        self._lookout.stop()
        self._ahead.stop()
        every = [self._at_work, *([self._shown] if self._coming else []), *(one for one, _ in self._past)]
        for one in every:
            one.stop()
        self._server.stop()
        api.join(STOP_S)
        for one in every:
            if one.wait_ended(STOP_S) and not api.is_alive():
                one.view.close()  # otherwise the process ends with it open, which RocksDB's log survives
        if self._fatal is not None:
            raise self._fatal

    def _watch(self) -> None:
        told = None
        while not self._stop.is_set():
            self._awake.wait(_LOOK_S)  # readers wait for what a promotion needs
            self._awake.clear()
            self._look()
            status = self._shown.view.status
            if status != told:
                self._log.info("view", state=status.state.value, reason=status.reason)
                told = status
                if status.state is State.STOPPED:  # it continues to serve, and readers see the reason
                    self._at_work.start.stopped(ProtocolError(status.reason))
            failure = self._at_work.follower.failure
            if failure and not self._told:
                self._told = True
                self._write_alert(failure)

    def _look(self) -> None:
        successor = self._successor()
        if successor is not None and self._ahead.pause():
            self._begin(successor)
            self._ahead.resume()
        coming = self._coming
        if coming is not None and coming.view.milestone is not None:
            self._switch(coming)
        elif coming is not None:
            state, reason = coming.view.status
            say = f"generation {coming.generation} is promoted; its view: {reason or state.value}"
            moving = state in (State.STARTING, State.FOLLOWING)
            self._shown.view.status = Status(State.RESTORING if moving else state, say)
        elif self._shown.view.status.state is State.FOLLOWING:
            self._clear_away()

    def _full(self) -> bool:
        return self._shown.view.status.state is State.FULL

    def _settled(self) -> Milestone | None:
        """The milestone shown, if its generation is not about to be replaced."""
        shown = self._shown
        return shown.view.milestone if self._coming is None and self._latest == shown.generation else None

    @property
    def _latest(self) -> Generation:
        """The latest generation that was started or refused."""
        return max(self._at_work.generation, self._refused or self._at_work.generation)

    def _stopped_generation(self) -> Generation | None:
        """The generation at which the view has stopped; None while it follows the commit stream. Also None for a
        replica: its origin's promotions are on no stream of this region.
        """
        if self._settings.replica_of:
            return None
        return self._latest if self._at_work.view.status.state is State.STOPPED else None

    def _successor(self) -> Milestone | None:
        """The newest milestone of a promoted generation to start."""
        told = self._at_work.follower.successor, self._lookout.found
        later = [one for one in told if one and one.generation.number > self._latest.number]
        return max(later, key=lambda one: one.generation.number, default=None)

    def _begin(self, successor: Milestone) -> None:
        """Start the next generation's view. Changes nothing while its job file cannot be read, or while the disk
        has no room for it: call again."""
        reach("generation-ended")
        generation = successor.generation
        try:
            job: Job | UsageError = self._jobs.at(successor)
        except UnavailableError as error:
            self._shown.view.status = Status(State.WAITING, f"generation {generation} is promoted: {error}")
            return
        except UsageError as error:
            job = error
        settings = self._settings.model_copy(update={"generation": generation})
        coming: ServedGeneration | None = None
        refusal: UsageError | None = None
        try:
            if isinstance(job, UsageError):
                raise job
            coming = self._served(job, settings)
        except DiskFullError as error:
            self._shown.view.status = Status(State.FULL, f"generation {generation} is promoted: {error}")
            return
        except UsageError as error:  # e.g. more peers than partitions: the view shown stays
            refusal = error
        self._log.info("another generation is promoted", generation=str(generation), milestone=successor.sequence)
        self._at_work.stop()
        self._told = False
        if self._coming:  # overtaken before it could be shown
            self._past.append((self._coming, time.monotonic()))
        self._coming = coming
        if coming is None:
            self._refused = generation
            self._shown.view.status = Status(State.STOPPED, f"generation {generation} is promoted: {refusal}")
            return
        coming.start_threads(self._guarded, alone=False)

    def _switch(self, coming: ServedGeneration) -> None:
        reach("generation-built")
        before, self._shown, self._coming = self._shown, coming, None
        self._front.show(coming.generation_app)
        before.waiters.wake()  # they repeat their requests in the one shown
        self._past.append((before, time.monotonic()))
        self._tidy = False
        reach("generation-shown")
        self._log.info("another generation is shown", generation=str(coming.generation))

    def _clear_away(self) -> None:
        kept_s = KEPT_FOR_PEERS_S if self._settings.shares else KEPT_S
        for one, since_s in list(self._past):
            if time.monotonic() - since_s < kept_s or one.generation_app.open_requests or not one.wait_ended(0):
                continue
            self._front.drop(one.generation_app)
            one.view.close()
            self._past.remove((one, since_s))
            self._tidy = False
        if self._tidy or self._past:
            return
        self._tidy = True
        try:
            if removed := remove_earlier(self._shown.folder):
                self._log.info("views of earlier generations are deleted", generations=removed)
        except OSError as error:
            self._log.warning("the view of an earlier generation was not deleted", error=str(error))

    def _write_alert(self, error: ProtocolError) -> None:
        """Publish the failure: the view stays up with its last good milestone, so no exit reports it."""
        tell = (
            self._settings.cluster,
            self._job.name,
            self._at_work.generation,
            "rehydrator",
            error,
            now_ms(),
            self._log,
        )
        threading.Thread(target=write_end_alert, args=tell, name="tell", daemon=True).start()

    def _serve(self) -> None:
        self._server.run()

    def _guarded(self, work: Callable[[], None], must_stay: bool = False) -> None:
        """Run a thread's work; its error, or an unexpected end, ends the service."""
        try:
            work()
            if must_stay and not self._stop.is_set():
                raise MachineError("the API stopped unexpectedly; see the log above")
        except BaseException as error:
            self._fatal = self._fatal or error
            self._at_work.start.stopped(error)
            self.stop()


def _listener(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be bound ({error.strerror})"
        raise MachineError(
            f"{host}:{port} {why}: set CUTWATER_HOST and CUTWATER_PORT (0 picks a free port)"
        ) from None


def main() -> int:
    """Run the service; return the exit code."""
    return run_service("rehydrator", Rehydrator, choose_generation)
