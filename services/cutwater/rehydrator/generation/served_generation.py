"""One generation served: its view, the threads that work on it, and its application."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cached_property, partial
from math import inf
from typing import Any

from cutwater.adapters.config.held_part import holding_of
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.fetch.native_rows import usable
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.recovery_log import account
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.query.global_merge import require_mergeable
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.cluster.held_part import Replica
from cutwater.rehydrator.cluster.peers import Peers
from cutwater.rehydrator.cluster.regions import Regions
from cutwater.rehydrator.generation.replica import remove_incomplete_view, stream_of
from cutwater.rehydrator.generation.snapshots import ViewSnapshots, clear
from cutwater.rehydrator.generation.start_report import StartReport
from cutwater.rehydrator.http_api.generation_app import GenerationApp
from cutwater.rehydrator.http_api.milestone_waiters import Waiters
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.rehydrator.metrics.restore_progress import Loading
from cutwater.rehydrator.metrics.state_size import Sized
from cutwater.rehydrator.routes.export import Snapshot
from cutwater.views.bulk.loader import BulkLoader, workers_by_default
from cutwater.views.follow.follower import Follower
from cutwater.views.query.change_feed import Changes
from cutwater.views.query.view import View
from cutwater.views.snapshots.observer import SnapshottingObserver
from cutwater.views.store.folders import adopt_preload, folder_of
from cutwater.views.store.rebuild_order import execute_order
from cutwater.views.store.store import Store
from cutwater.views.store.table import RocksTable

Guarded = Callable[[Callable[[], None]], None]
"""Runs a thread's work; its error ends the service."""


class ServedGeneration:
    """The parts of one generation that is served, built from the settings."""

    def __init__(
        self,
        job: Job,
        settings: Settings,
        metrics: Metrics,
        log: Any,
        shown: Callable[[], GenerationApp],
        wake: Callable[[], None],
        first: bool = False,
    ) -> None:
        """`job`, `settings`: of this generation. `shown`: returns the application that requests go to now.
        `wake`: called if a milestone is shown, and if following ends. `first`: whether it is the process's first.
        Raises MachineError or UsageError if the folder is not usable.
        """
        self._wake = wake
        self.generation = settings.generation
        self._job, self._settings, self._metrics, self._log = job, settings, metrics, log
        registry = metrics.registry if first else None
        self.start = account("rehydrator", job.name, self.generation, settings.cluster, log, registry)
        holding, replica = holding_of(settings, job)
        partitions, selection = holding.partitions, holding.selection
        regions = self._regions()
        self.folder = folder_of(settings.views_dir, job.name, self.generation)
        anew = execute_order(self.folder)
        if anew:
            log.warning("the view is rebuilt from the changelog, as ordered", folder=str(self.folder))
        if settings.replica_of:
            remove_incomplete_view(self.folder, log)
        else:
            adopt_preload(self.folder)
        with self.start.step("opening the store"):
            table = partial(RocksTable, memory_bytes=settings.view_memory_mb << 20)
            self.store = Store(self.folder, job, self.generation, None, table, partitions, selection=selection)
        self.view = view = View(self.store, job)
        token = settings.api_token.get_secret_value()
        shares, name = settings.shares, str(self.generation)
        stands = (lambda: view.current, lambda: view.milestone.sequence if view.milestone else 0)
        peers = Peers(job.shards, shares, settings.peer_url, token, metrics, *stands, name)
        role = "replica" if replica else f"standby of {peers.owner}" if peers.standby else "owner"
        self.start.record_facts(role=role)
        self.changes = Changes(lambda: view.milestone)
        self.waiters = Waiters()
        starting = StartReport(self.start, metrics, view, self.store, self._wake_all)
        self.sized = Sized(job, self.store, settings.view_census_ms, metrics, log)
        kept = None
        # A snapshot holds all rows of its partitions.
        if settings.snapshots and selection is None:
            takes = role == "owner" or bool(settings.replica_of)
            kept = ViewSnapshots(job, settings, partitions, self.store, metrics, log, takes)
        else:
            clear(self.store, log)
        self._taking = taking = kept.taking if kept else None
        self.follower = Follower(
            settings.cluster,
            job,
            self.generation,
            self.store,
            view,
            now_ms,
            SnapshottingObserver(starting, taking, kept.pace) if kept and taking else starting,
            wait_s=settings.wait_ms / 1000,
            partitions=partitions,
            bulk=self._bulk(selects=selection is not None),
            prepare=kept.prepare(starting) if kept and kept.restores and not anew else None,
            evict=self.sized.evict,
            changes=self.changes,
            stream=stream_of(job, settings),
        )
        self._make_app = partial(
            create_app,
            view,
            self.generation,
            metrics,
            now_ms,
            settings.access,
            peers,
            Snapshot(taking.request, kept.share) if kept and taking else None,
            self.sized.answer,
            Replica(holding, job.shards, settings.replica_of) if replica else None,
            self.changes,
            shown,
            regions,
            settings.metrics_token.get_secret_value(),
            self.waiters,
        )
        self._division = peers.agreed.hex()
        self._threads: list[threading.Thread] = []

    @cached_property
    def generation_app(self) -> GenerationApp:
        """The application. Building it takes 0.2 s, for which a view that loads does not wait."""
        return GenerationApp(self._make_app(), self._division)

    def _wake_all(self) -> None:
        self.waiters.wake()
        self._wake()

    def start_threads(self, guarded: Guarded, alone: bool) -> None:
        """Start the follower, the census and the snapshots; then build the application. `alone`: if no
        view of another generation is shown meanwhile, brokers that do not answer end the process after a while."""
        if not alone:
            self.follower.wait_s = inf
        work = {"follower": self._follow, "census": self.sized.census.run}
        if self._taking:
            work["snapshots"] = self._taking.run
        self._threads = [
            threading.Thread(target=guarded, args=(run,), name=name, daemon=True) for name, run in work.items()
        ]
        for thread in self._threads:
            thread.start()
        _ = self.generation_app

    def _follow(self) -> None:
        self.follower.run()
        self._wake()

    def stop(self) -> None:
        """End its threads within seconds; the view stays shown."""
        self.follower.stop()
        self.sized.census.stop()
        if self._taking:
            self._taking.stop()

    def wait_ended(self, wait_s: float) -> bool:
        """Return whether all of its threads have ended within `wait_s`."""
        until_s = time.monotonic() + wait_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _regions(self) -> Regions | None:
        settings = self._settings
        apis = settings.region_apis
        if not apis:
            return None
        require_mergeable(self._job.measures)
        token = settings.api_token.get_secret_value()
        return Regions(settings.replica_of or settings.region, apis, token, self._metrics)

    def _bulk(self, selects: bool) -> Callable[[Store, Callable[[], bool]], BulkLoader]:
        job, settings = self._job, self._settings
        native = settings.native and usable() and not selects  # selections are implemented in Python
        self._metrics.native(native)
        loading = Loading(self._metrics, self._log, native)
        topic = topics.changelog(job.name, settings.generation)

        def make(store: Store, stopping: Callable[[], bool]) -> BulkLoader:
            workers = settings.restore_workers or workers_by_default()
            return BulkLoader(settings.cluster, job, topic, store, loading, workers, stopping, native=native)

        return make
