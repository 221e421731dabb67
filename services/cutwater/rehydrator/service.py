"""The rehydrator: a view that follows the commit stream, and its HTTP API. The composition root of the service.

python -m cutwater.rehydrator JOBFILE
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn

from cutwater.adapters.alerting import tell_end
from cutwater.adapters.holding import holding_of
from cutwater.adapters.native import usable
from cutwater.adapters.process import now_ms, run_service
from cutwater.adapters.settings import Settings
from cutwater.adapters.trail import account
from cutwater.core import topics
from cutwater.core.errors import MachineError, ProtocolError
from cutwater.core.job import Job
from cutwater.rehydrator.access import open_to_others
from cutwater.rehydrator.api import create_app
from cutwater.rehydrator.census import Sized
from cutwater.rehydrator.loading import Loading
from cutwater.rehydrator.metrics import Metrics
from cutwater.rehydrator.peers import Peers
from cutwater.rehydrator.replica import Replica
from cutwater.rehydrator.snapshots import Kept, clear
from cutwater.rehydrator.starting import Starting
from cutwater.rehydrator.storemetrics import StoreMetrics
from cutwater.rehydrator.working import found
from cutwater.views.bulk import Bulk, workers_by_default
from cutwater.views.changes import Changes
from cutwater.views.follower import Follower
from cutwater.views.snapshotting import Between
from cutwater.views.store import Store, folder_of
from cutwater.views.table import RocksTable
from cutwater.views.view import State, View

CONNECTIONS_MAX = 512
STOP_S = 3.0
"""How long the API and the follower each get to end."""
_LOOK_S = 0.2


class Rehydrator:
    """One view served: the follower in one thread, the API in another."""

    def __init__(self, job: Job, settings: Settings, log: Any) -> None:
        """Takes the port and the folder; MachineError or UsageError when they cannot be had."""
        self._log = log
        self._job = job.name
        self._settings = settings
        self._told = False
        self._listener = _listen(settings.host, settings.port)
        generation, metrics = settings.generation, Metrics()
        self._start = account("rehydrator", job.name, generation, settings.cluster, log, metrics.registry)
        token = settings.api_token.get_secret_value()
        holding, replica = holding_of(settings, job.shards)
        partitions, selection = holding.partitions, holding.selection
        with self._start.step("opening the store"):
            folder = folder_of(settings.data_dir, job.name, generation)
            table = partial(RocksTable, memory_bytes=settings.view_memory_mb << 20)
            store = Store(folder, job, generation, None, table, partitions, selection=selection)
        self._view = view = View(store, job)
        behind = (lambda: view.current, lambda: view.milestone.sequence if view.milestone else 0)
        peers = Peers(job.shards, settings.shares, settings.peer_url, token, metrics, *behind)
        role = "replica" if replica else f"standby of {peers.owner}" if peers.standby else "owner"
        self._start.found(role=role)
        metrics.watch(self._view, now_ms)
        metrics.registry.register(StoreMetrics(store.figures))
        changes = Changes(lambda: self._view.milestone)
        metrics.watch_changes(changes)
        starting = Starting(self._start, metrics, self._view, store)
        self._sized = Sized(job, store, settings.view_census_ms, metrics, log)
        self._kept = None
        if settings.snapshots and selection is None:  # a snapshot holds all rows of its partitions
            self._kept = Kept(job, settings, partitions, store, metrics, log, takes=role == "owner")
        else:
            clear(store, log)
        taking = self._kept.taking if self._kept else None
        self._follower = Follower(
            settings.cluster,
            job,
            generation,
            store,
            self._view,
            now_ms,
            Between(starting, taking) if taking else starting,
            wait_s=settings.wait_ms / 1000,
            partitions=partitions,
            bulk=self._bulk(job, metrics, selects=selection is not None),
            prepare=self._kept.prepare(starting) if self._kept else None,
            evict=self._sized.evict,
            changes=changes,
        )
        if open_to_others(self._listener.getsockname()[0], token):
            log.warning("anybody on the network may read the state: set CUTWATER_API_TOKEN", host=settings.host)
        snapshot = taking.request if taking else None
        app = create_app(
            self._view,
            generation,
            metrics,
            now_ms,
            token,
            peers,
            snapshot,
            self._sized.answer,
            Replica(holding, job.shards) if replica else None,
            changes,
        )
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                limit_concurrency=CONNECTIONS_MAX,
                timeout_graceful_shutdown=1,
                lifespan="off",
            )
        )
        self._stop = threading.Event()
        self._fatal: BaseException | None = None

    def _bulk(self, job: Job, metrics: Metrics, selects: bool) -> Callable[[Store, Callable[[], bool]], Bulk]:
        settings = self._settings
        native = settings.native and usable() and not selects  # a selection is of Python
        metrics.native(native)
        loading = Loading(metrics, self._log, native)
        topic = topics.changelog(job.name, settings.generation)

        def make(store: Store, stopping: Callable[[], bool]) -> Bulk:
            workers = settings.restore_workers or workers_by_default()
            return Bulk(settings.cluster, job, topic, store, loading, workers, stopping, native=native)

        return make

    @property
    def port(self) -> int:
        """The port that the API listens on."""
        return int(self._listener.getsockname()[1])

    def stop(self, *_signal: object) -> None:
        """End `run` within a few seconds."""
        self._stop.set()

    def run(self) -> None:
        """Serve until stopped; raises the error that ended the follower or the API."""
        threads = [
            threading.Thread(target=self._guarded, args=(self._follower.run, False), name="follower", daemon=True),
            threading.Thread(target=self._guarded, args=(self._serve, True), name="api", daemon=True),
            threading.Thread(
                target=self._guarded, args=(self._sized.census.run, False), name="census", daemon=True
            ),
        ]
        taking = self._kept.taking if self._kept else None
        if taking:
            work = (taking.run, False)
            threads.append(threading.Thread(target=self._guarded, args=work, name="snapshots", daemon=True))
        for thread in threads:
            thread.start()
        self._log.info("serving", port=self.port)
        self._watch()
        self._follower.stop()
        self._sized.census.stop()
        if taking:
            taking.stop()
        self._server.should_exit = True
        for thread in threads:
            thread.join(STOP_S)
        if not any(thread.is_alive() for thread in threads):
            self._view.close()  # else the process ends with it open, which RocksDB's log survives
        if self._fatal is not None:
            raise self._fatal

    def _watch(self) -> None:
        told = None
        while not self._stop.wait(_LOOK_S):
            status = self._view.status
            if status != told:
                self._log.info("view", state=status.state.value, reason=status.reason)
                told = status
                if status.state is State.STOPPED:  # it goes on serving: whoever asks shall know why it stays there
                    self._start.stopped(ProtocolError(status.reason))
            if self._follower.failure and not self._told:
                self._told = True
                self._tell(self._follower.failure)

    def _tell(self, error: ProtocolError) -> None:
        """The view stays up and shows its last good milestone, so nobody would hear of it from its end."""
        tell = (
            self._settings.cluster,
            self._job,
            self._settings.generation,
            "rehydrator",
            error,
            now_ms(),
            self._log,
        )
        threading.Thread(target=tell_end, args=tell, name="tell", daemon=True).start()

    def _serve(self) -> None:
        self._server.run(sockets=[self._listener])

    def _guarded(self, work: Any, must_stay: bool) -> None:
        """Run a thread's work; its error, or an end that nobody asked for, ends the service."""
        try:
            work()
            if must_stay and not self._stop.is_set():
                raise MachineError("the API ended by itself; see the log above")
        except BaseException as error:
            self._fatal = self._fatal or error
            self._start.stopped(error)
            self._stop.set()


def _listen(host: str, port: int) -> socket.socket:
    """Take the port now, so that a port in use is one clear line and not a stack trace of the web server."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(CONNECTIONS_MAX)
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be taken ({error.strerror})"
        raise MachineError(
            f"{host}:{port} {why}: set CUTWATER_HOST and CUTWATER_PORT (0 takes a free one)"
        ) from None
    return listener


def main() -> int:
    """Entry point; returns the exit code."""
    return run_service("rehydrator", Rehydrator, found)
