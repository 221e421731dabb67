"""The rehydrator's Prometheus metrics. Durations in seconds, times as Unix time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.bulk_load import Done
from cutwater.core.state.eviction import Eviction
from cutwater.core.state.snapshot_manifest import Manifest
from cutwater.rehydrator.metrics.accesses import Accesses
from cutwater.views.follow.applier import Applied
from cutwater.views.query.change_feed import Changes
from cutwater.views.query.view import State, View
from cutwater.views.snapshots.object_store_tier import Pruned, Uploaded

_TAKE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_UPLOAD_SECONDS = (0.05, 0.25, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0, 3600.0)
_APPLY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class Metrics:
    """Implements the `Observer` of the follower and the `Watched` protocols of snapshots and restore."""

    def __init__(self, now_ms: Callable[[], int] = now_ms) -> None:
        """`now_ms`: the clock of the periods in which reads are counted."""
        self.registry = CollectorRegistry()
        here: dict[str, Any] = {"registry": self.registry, "namespace": "cutwater", "subsystem": "view"}
        self._milestones = Counter("milestones_applied", "Milestones applied.", **here)
        self._records = Counter("records_applied", "Changelog records read below cuts.", **here)
        self._bytes = Counter("bytes_applied", "Bytes of keys and values applied.", unit="bytes", **here)
        self._seconds = Histogram(
            "apply", "Time to apply a milestone.", unit="seconds", buckets=_APPLY_SECONDS, **here
        )
        self._retries = Counter("retries", "Retries because the brokers did not answer.", **here)
        self._divergences = Counter(
            "divergences", "Times that rows or the hash chain contradicted a milestone.", **here
        )
        self._backlog = Gauge("backlog_milestones", "Milestones read but not yet applied.", **here)
        self.waiting = Gauge("waiting_requests", "Requests that wait for a milestone (at_least).", **here)
        self.passed_on = Counter("requests_passed_on", "Requests passed on to a peer that holds the rows.", **here)
        self.peer_failures = Counter("peer_failures", "Requests passed on that the peer did not answer.", **here)
        self.region_questions = Counter("region_questions", "Requests to regions for global queries.", **here)
        self.region_failures = Counter("region_failures", "Requests to regions without a usable answer.", **here)
        self.region_bytes = Gauge("region_answers", "Bytes of regions' answers in memory.", unit="bytes", **here)
        self.global_questions = Counter("global_questions", "Queries to the global view.", **here)
        self.global_under_way = Gauge("global_under_way", "Global queries in progress.", **here)
        self._refused = Counter(
            "global_refusals",
            "Global queries refused: by a limit (questions, bytes, time), or for missing regions (regions).",
            ["reason"],
            **here,
        )
        for reason in ("questions", "bytes", "time", "regions"):
            self._refused.labels(reason)  # start at 0: an alert misses a counter's first increase
        self.standby_answers = Counter("standby_answers", "Requests answered as a standby.", **here)
        self.cut_off = Counter("followers_cut_off", "Readers of changes cut off for being too slow.", **here)
        self._loaded = Gauge("loaded_records", "Changelog records that a bulk restore has loaded.", **here)
        self._to_load = Gauge(
            "to_load_records", "Upper bound of the records to load; compaction leaves fewer.", **here
        )
        self._native = Gauge("load_native", "1 if the optional native module does most of a bulk restore.", **here)
        self._loaded_bytes = Gauge(
            "loaded_bytes", "Bytes of keys and values that a bulk restore has loaded.", **here
        )
        self._evicted = Counter("evicted_segments", "Time segments evicted for the job's max_bytes.", **here)
        self._evicted_bytes = Counter("evicted", "Bytes of keys and values evicted.", unit="bytes", **here)
        self._over = Gauge("over_bytes", "Bytes by which open windows alone exceed max_bytes.", **here)
        self._here = here
        self._snapshots(here)
        self.accesses = Accesses(now_ms)
        self.registry.register(self.accesses)

    def _snapshots(self, here: dict[str, Any]) -> None:
        self._taken = Counter("snapshots_taken", "Checkpoints made between two milestones.", **here)
        self._taking = Histogram(
            "snapshot_take",
            "Time that the follower pauses for a checkpoint.",
            unit="seconds",
            buckets=_TAKE_SECONDS,
            **here,
        )
        self._uploaded = Counter("snapshots_uploaded", "Snapshots whose manifest is in the object store.", **here)
        self._uploading = Histogram(
            "snapshot_upload",
            "Time from a checkpoint's first hash to its manifest.",
            unit="seconds",
            buckets=_UPLOAD_SECONDS,
            **here,
        )
        self._new_files = Counter("snapshot_files_uploaded", "Snapshot files uploaded.", **here)
        self._new_bytes = Counter("snapshot_uploaded", "Bytes of snapshot files uploaded.", unit="bytes", **here)
        self._failures = Counter("snapshot_failures", "Failures to take or upload a snapshot.", **here)
        self._unusable = Counter("snapshots_unusable", "Damaged snapshots passed over in a restore.", **here)
        self._passed_over = Gauge(
            "snapshots_passed_over",
            "Damaged snapshots passed over since this start; for alerts, which miss a counter's first increase.",
            **here,
        )
        self._restored = Counter("snapshots_restored", "Restores of the view from a snapshot.", **here)
        self._deleted = Counter("snapshot_files_deleted", "Files deleted because no snapshot needs them.", **here)
        self._unreadable = Gauge(
            "snapshot_manifests_unreadable", "Unreadable manifests; if there are any, no file is deleted.", **here
        )
        self._away = Gauge("snapshot_store_away", "1 while the object store does not answer correctly.", **here)
        self._sequence = Gauge("snapshot_sequence", "Sequence of the last snapshot uploaded or restored.", **here)
        self._moment = Gauge("snapshot_timestamp_seconds", "When that snapshot's manifest was written.", **here)
        self._restore_s = Gauge(
            "snapshot_restore_seconds", "Duration of the last restore from a snapshot.", **here
        )
        self._every = Gauge(
            "snapshot_every_seconds", "Minimum time between two snapshots; NaN if none are taken.", **here
        )
        for unknown in (self._sequence, self._moment, self._every):
            unknown.set(float("nan"))

    def watch(self, shown: Callable[[], View], now_ms: Callable[[], int]) -> None:
        """Report the view that is shown, at each scrape."""

        def of(name: str, text: str, value: Callable[[Milestone], float]) -> None:
            def read() -> float:
                milestone = shown().milestone
                return value(milestone) if milestone else float("nan")

            Gauge(name, text, **self._here).set_function(read)

        of("sequence", "Sequence of the milestone shown.", lambda one: one.sequence)
        of("watermark_timestamp_seconds", "Watermark of the milestone shown.", lambda one: one.watermark_ms / 1000)
        of(
            "horizon_timestamp_seconds",
            "Horizon of the milestone shown.",
            lambda one: shown().horizon_ms(one) / 1000,
        )
        of(
            "lower_bound_timestamp_seconds",
            "Windows that end at or below it were evicted; NaN if none were.",
            lambda one: float("nan") if (lower := shown().lower_ms(one)) is None else lower / 1000,
        )
        of("age_seconds", "Age of the milestone shown.", lambda one: shown().age_ms(one, now_ms()) / 1000)
        Gauge("disk_full", "1 while nothing is applied because the disk is full.", **self._here).set_function(
            lambda: float(shown().status.state is State.FULL)
        )
        Gauge("ready", "1 while a milestone is shown and the view follows.", **self._here).set_function(
            lambda: float(shown().ready)
        )

    def watch_changes(self, shown: Callable[[], Changes]) -> None:
        """Report the followers and the changes kept for them, at each scrape."""
        followers = Gauge("followers", "Readers that follow the changes.", **self._here)
        followers.set_function(lambda: shown().followers)
        kept = Gauge("changes", "Bytes of changed rows kept for followers.", unit="bytes", **self._here)
        kept.set_function(lambda: shown().size)

    def applied(self, milestone: Milestone, done: Applied) -> None:
        self._milestones.inc()
        self._records.inc(done.records)
        self._bytes.inc(done.bytes)
        self._seconds.observe(done.seconds)

    def loaded(self, done: Done, records_max: int) -> None:
        self._loaded.set(done.records)
        self._to_load.set(records_max)
        self._loaded_bytes.set(done.bytes)

    def native(self, now: bool) -> None:
        self._native.set(now)

    def evicted(self, found: Eviction) -> None:
        self._evicted.inc(len(found.segments))
        self._evicted_bytes.inc(found.bytes)

    def record_excess(self, over_bytes: int) -> None:
        self._over.set(over_bytes)

    def backlog(self, milestones: int) -> None:
        self._backlog.set(milestones)

    def refused(self, reason: str) -> None:
        """Count a global query that was refused."""
        self._refused.labels(reason).inc()

    def retried(self) -> None:
        self._retries.inc()

    def diverged(self) -> None:
        self._divergences.inc()

    def takes(self, every_ms: int) -> None:
        self._every.set(every_ms / 1000)

    def record_checkpoint(self, milestone: Milestone, seconds: float) -> None:
        self._taken.inc()
        self._taking.observe(seconds)

    def uploaded(self, done: Uploaded, seconds: float) -> None:
        self._uploaded.inc()
        self._uploading.observe(seconds)
        self._new_files.inc(done.files)
        self._new_bytes.inc(done.bytes)
        self._sequence.set(done.manifest.sequence)
        self._moment.set(done.manifest.created_ms / 1000)

    def pruned(self, done: Pruned) -> None:
        self._deleted.inc(done.deleted)
        self._unreadable.set(len(done.unreadable))

    def failed(self) -> None:
        self._failures.inc()

    def record_answer(self, well: bool) -> None:
        self._away.set(0 if well else 1)

    def restored(self, manifest: Manifest, seconds: float) -> None:
        self._restore_s.set(seconds)
        self._restored.inc()

    def set_restored_snapshot(self, manifest: Manifest) -> None:
        """Report the restored snapshot; only for a rehydrator that takes snapshots, as others do not renew it."""
        self._sequence.set(manifest.sequence)
        self._moment.set(manifest.created_ms / 1000)

    def unusable(self, _reason: str) -> None:
        self._unusable.inc()
        self._passed_over.inc()
