"""watch: follows a job's topics, exports its progress as metrics, raises alerts. The service's composition root.

It is not part of the commit path: no other service waits for it, and it writes only to `<job>.alerts`. The state
and the decisions are in `cutwater.core` (`monitoring.job_status_fold`, `monitoring.alert_changes`); Faust
(`faust_app`) delivers the records.

    python -m cutwater.watch JOBFILE
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

from aiokafka.errors import KafkaError

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.metrics_server import serve
from cutwater.adapters.http.trace_exporter import exporter_of
from cutwater.adapters.kafka.startup_wait import await_brokers
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.alerts import message_of
from cutwater.adapters.topics.audit_log import AuditLog
from cutwater.adapters.topics.candidates import waiting_candidate
from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.monitoring.alert_changes import decide_changes
from cutwater.core.monitoring.alerts import Alert, on
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.monitoring.job_status_fold import (
    observe_disk,
    observe_end,
    observe_nothing,
    observe_snapshot,
    observe_view,
    take_alert,
)
from cutwater.core.monitoring.safe_actions import DOUBTFUL
from cutwater.core.protocol import topics
from cutwater.operations import job_status
from cutwater.operations.generations.claims import Claims
from cutwater.operations.job_status import Read, SourceEnds
from cutwater.operations.service_main import run_service
from cutwater.watch.action_audit import ActionAudit
from cutwater.watch.consumer_group import move_group
from cutwater.watch.disk_space import Disks
from cutwater.watch.faust_app import make_app
from cutwater.watch.metrics import Metrics
from cutwater.watch.milestone_tracer import MilestoneTracer
from cutwater.watch.rehydrator_position import View
from cutwater.watch.safe_actions import ActionLog, SafeActions
from cutwater.watch.webhook import Webhook

STOP_S = 5.0
SAMPLES_PER_WINDOW = 8
BUCKETS_PER_WINDOW = 5
AHEAD_MS = 30_000
"""The time between two looks at what fills slowly, and at candidates."""


class Watch:
    """One watch of one job. The transactional id lets at most one of them write."""

    def __init__(self, job: Job, settings: Settings, log: Any) -> None:
        """Raise UsageError for a webhook with an invalid URL."""
        self._job = job
        self._settings = settings
        self._log = log
        self._cluster = settings.cluster
        self._limits = job_status.limits_of(job, settings)
        self._metrics = Metrics()
        url, token = settings.alert_webhook_url, settings.alert_webhook_token
        self._webhook = (
            Webhook(url.get_secret_value(), token.get_secret_value(), self._metrics, log)
            if url.get_secret_value()
            else None
        )
        views = settings.watch_views
        self._view = View(views, settings.api_headers) if views else None
        exporter = exporter_of(settings)
        self._tracer = MilestoneTracer(exporter, self._limits.publishes, bool(views)) if exporter else None
        self._alerts = topics.alerts(job.name)
        self._state = JobStatus(job.name, settings.generation)
        self._stopped = threading.Event()
        self._wake: Any = None
        self._gap = False
        self._disks = Disks(settings.data_dir, self._cluster, log)
        self._ahead_ms = self._candidates_ms = 0
        self._folder = settings.data_dir / "watch" / job.name
        actions = ActionLog(self._folder / "actions.json", self._metrics, log)
        audit = AuditLog(self._cluster, settings.replication_factor, settings.min_insync_replicas)
        audited = ActionAudit(job.name, audit, log)
        claims = Claims(self._cluster, job, settings.region, now_ms)
        acting = SafeActions(settings, actions, audited, claims, now_ms, self._stopped.wait)
        self._actions = acting if settings.safe_actions else None

    def stop(self, *_signal: object) -> None:
        """End `run` within a few seconds."""
        self._stopped.set()
        if self._wake is not None:
            self._wake()

    def run(self) -> None:
        """Watch until stopped. Raise CutwaterError if a newer watch fences this one or the brokers fail."""
        await_brokers(self._cluster, self._settings.wait_ms / 1000, self._log)
        serve(self._metrics.registry, self._settings, "CUTWATER_WATCH_PORT", self._log)
        self._writer = TransactionalWriter(self._cluster, topics.watch_id(self._job.name))
        self._writer.initialise()
        # Read after fencing an older watch: its alerts are final now.
        bucket_ms = self._limits.window_ms // BUCKETS_PER_WINDOW
        self._state = job_status.recover(self._cluster, self._job, self._settings.generation, bucket_ms)
        move_group(self._cluster, self._job, self._state, self._log)
        self._ends = SourceEnds(self._cluster, self._job.topic)
        self._log.info("ready", sequence=self._state.sequence, alerts=len(self._state.alerts))
        asyncio.run(self._main())

    async def _main(self) -> None:
        loop, wake = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(wake.set)
        name = self._job.name
        self._folder.mkdir(parents=True, exist_ok=True)  # Faust requires one
        followed = job_status.followed(self._job)
        app = make_app(self._cluster, topics.watch_id(name), followed, self._folder, self._take, self._assigned)
        try:
            await _started(app)
            while not self._stopped.is_set():
                if app.crashed:
                    raise UnavailableError(
                        f"the streams of job {name} ended: {app.crash_reason!r}; restart the watch"
                    )
                await self._tick()
                await _wait(wake, self._settings.watch_tick_ms / 1000)
        finally:
            with suppress(TimeoutError):
                await asyncio.wait_for(app.stop(), STOP_S)
            for one in (self._webhook, self._view):
                if one is not None:
                    await one.close()
            if self._tracer:
                await asyncio.to_thread(self._tracer.close)

    def _assigned(self) -> None:
        self._gap = True

    async def _take(self, read: Read) -> None:
        """Take one record from Faust. A record of the alerts topic is done once the webhook has it."""
        fresh = read.offset >= self._state.reads.get(read.topic, 0)
        self._fold(read)
        if self._webhook and read.topic == self._alerts and (alert := job_status.alert_of(read)):
            await self._webhook.post(alert)
        if fresh:
            self._metrics.show(self._state)

    def _fold(self, read: Read) -> None:
        before, self._state = self._state, job_status.apply_record(self._state, read)
        if self._tracer:
            self._tracer.follow(before, self._state)
        committed = self._state.committed
        if committed and committed is not before.committed:
            self._metrics.milestone(committed, bool(self._tracer))
        reader = self._state.publisher
        if committed and reader is not before.publisher and reader.sequence == committed.sequence:
            self._metrics.published(committed, reader.moved_ms, bool(self._tracer))

    async def _tick(self) -> None:
        if self._state.successor is not None:
            # This process has skipped the successor's barriers; a new start reads them.
            raise UnavailableError(f"{self._state.successor} is promoted: the watch restarts with it")
        await self._look()
        await self._look_ahead()
        records = decide_changes(self._state, self._limits, now_ms())
        # Faust may be slow or behind a gap: read the topics directly before an alert is raised.
        if self._gap or any(one.on for one in records):
            self._gap = False
            try:
                reads = await asyncio.to_thread(job_status.read_new, self._cluster, self._job, self._state)
            except CutwaterError as error:
                self._gap = True
                self._metrics.blind.set(1)
                self._log.warning("no alert rule is evaluated: the topics cannot be read", problem=str(error))
                return
            for read in reads:
                self._fold(read)
            records = decide_changes(self._state, self._limits, now_ms())
        if records:
            await self._write(records)
        if self._actions:
            if self._actions.may_hold and any(one.kind in DOUBTFUL for one in on(self._state.alerts)):
                await self._look_for_candidates()
            await asyncio.to_thread(self._actions.act, self._state)
        self._metrics.show(self._state)

    async def _look(self) -> None:
        """Query what no topic contains: the source's end and the view's position."""
        sample_ms = self._limits.window_ms // SAMPLES_PER_WINDOW
        try:
            end = await asyncio.to_thread(self._ends.ask, self._state)
            self._state = observe_end(self._state, end, now_ms(), sample_ms)
            self._metrics.blind.set(0)
        except CutwaterError:
            self._state = observe_nothing(self._state, now_ms(), sample_ms)
            self._metrics.blind.set(1)
        if self._view:
            before, self._state = self._state, observe_view(self._state, await self._view.sequence(), now_ms())
            if self._tracer:
                self._tracer.follow(before, self._state)

    async def _look_ahead(self) -> None:
        """Query, once in a while, what fills slowly: disks, and the time that a restore would take."""
        if now_ms() < self._ahead_ms:
            return
        self._ahead_ms = now_ms() + AHEAD_MS
        if self._limits.full_within_ms:
            for name, free, total in [*self._disks.own(), *await self._disks.of_brokers()]:
                self._state = observe_disk(self._state, name, free, total, now_ms())
        if self._view and self._limits.recovery_ms:
            self._state = observe_snapshot(self._state, await self._view.snapshot())

    async def _look_for_candidates(self) -> None:
        """Query, once in a while, which candidate waits for its promotion."""
        if now_ms() < self._candidates_ms:
            return
        self._candidates_ms = now_ms() + AHEAD_MS
        try:
            found = await asyncio.to_thread(waiting_candidate, self._cluster, self._job.name)
        except CutwaterError as error:
            self._log.warning("the candidates cannot be read", problem=str(error))
            return
        self._state = replace(self._state, candidate=found)

    async def _write(self, records: list[Alert]) -> None:
        """Write the alerts. Raise if the outcome is unknown; a restart then reads what the topic contains."""
        batch = Batch(self._alerts, 0, [message_of(one) for one in records])
        await asyncio.to_thread(self._writer.write_all, [batch])
        for one in records:
            self._state = take_alert(self._state, self._alerts, None, one)
            if one.on:
                self._metrics.raised(one)
            said = self._log.warning if one.on else self._log.info
            said("raised" if one.on else "resolved", kind=one.kind, part=one.part, text=one.text)


async def _started(app: Any) -> None:
    try:
        await app.start()
    except KafkaError as error:
        raise UnavailableError(f"the streams do not start ({error}); check that the brokers run") from None


async def _wait(wake: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(wake.wait(), seconds)


def main() -> int:
    return run_service("watch", Watch)
