"""The mirror: copies the origin's topics here and announces arrivals. The composition root of the service.

It runs in the target region: it reads the cluster of CUTWATER_ORIGIN_*, and writes to the region's own cluster.

    python -m cutwater.mirror JOBFILE
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.metrics_server import serve
from cutwater.adapters.http.trace_exporter import TraceExporter, exporter_of
from cutwater.adapters.kafka.admin import brokers, cluster_id, ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.startup_wait import await_brokers
from cutwater.adapters.runtime.garbage_collection import rare_collections
from cutwater.adapters.topics.recovery_log import account
from cutwater.core.checks import replication
from cutwater.core.checks.replication import UNREPLICATED, Replication
from cutwater.core.errors import CutwaterError, DivergenceError, FencedError, UnknownRecordError, UsageError
from cutwater.core.events.formats import confluent_numbers
from cutwater.core.job.job import Job
from cutwater.core.mirror.gaps import BROKEN, Gap
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.mirror_records import SLOTS
from cutwater.core.protocol.recovery_log import StartRecord, unrecorded
from cutwater.core.util.rate_limit import Throttle
from cutwater.mirror.arrivals.announcer import ArrivalAnnouncer
from cutwater.mirror.arrivals.arrival_tracer import ArrivalTracer
from cutwater.mirror.arrivals.fork_watch import ForkWatch
from cutwater.mirror.arrivals.lag import LagProbe
from cutwater.mirror.copier import BYTES, WAIT_S, Copier
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.origin import Origin
from cutwater.mirror.topics.schema_sync import Schemas, schemas_of
from cutwater.mirror.topics.topic_copy import FetchedRecords
from cutwater.operations.service_main import run_service

LOOKED_S = 5.0
"""How long the start waits for the first checks of the topics."""


class Mirror:
    """One process of a mirror; each slot has one owner, by its transactional id."""

    def __init__(
        self,
        context: MirrorContext,
        job: Job,
        account: StartRecord | None = None,
        slots: Sequence[int] = range(SLOTS),
        replication: Replication = UNREPLICATED,
        bytes_per_s: int = 0,
        kept: Collection[str] = (),
        forks: ForkWatch | None = None,
        schemas: Schemas | None = None,
        exporter: TraceExporter | None = None,
        region: str = "",
    ) -> None:
        """`slots`: those of this process. `bytes_per_s`: 0 for no limit.

        `kept`: settings of the copies that do not follow the origin's. `forks`: one process of a mirror reports
        them; None in the others. `schemas`: of the events; None if they have no ids of a separate registry of the
        origin. `exporter`: of traces; None without a collector. `region`: the name of this region, for traces.
        """
        self.metrics = context.metrics
        self._context, self._job = context, job
        self._account = account or unrecorded()
        self._stop = threading.Event()
        self._topics = {one for one in (topics.milestones(job.name), job.source) if one}
        self._replication = replication
        self._throttle = Throttle(bytes_per_s)
        self._standing = LagProbe(context)
        self._forks, self._schemas = forks, schemas
        self.copier = Copier(context, slots, replication, kept, self._unreadable)
        self._exporter = exporter
        tracer = ArrivalTracer(exporter.send, region) if exporter else None
        self.arriving = ArrivalAnnouncer(context, job.source, 0 in slots, self._stop.wait, tracer)

    def stop(self, *_signal: object) -> None:
        self._stop.set()

    def run(self) -> None:
        """Run until stopped. Raises the CutwaterError that ends the process."""
        try:
            with self._account as start:
                self._take_over(start)
            with rare_collections():
                while not self._stop.is_set():
                    self._round()
        except FencedError:
            raise
        except CutwaterError:
            # The process that fences this one may delete topics: FencedError precedes the errors from that.
            self.arriving.require_own()
            self.copier.require_own()
            raise
        finally:
            self.arriving.close()
            self.copier.close()
            if self._exporter:
                self._exporter.close()

    def _take_over(self, start: StartRecord) -> None:
        with start.step("comparing the two clusters"):
            _require_two(self._context.own, self._context.origin.cluster)
        with start.step("creating topics"):
            ensure_topics(
                self._context.own,
                mirror_records.mirror_topics(self._job.name, self._context.region),
                self._replication,
            )
        with start.step("fencing older mirrors, reading positions"):
            self._topics |= self.copier.open()
        with start.step("reading the last arrival"):
            self.arriving.open()
        with start.step("checking the topics"):
            self._follow()
            self.copier.wait_for_checks(LOOKED_S)
        self._follow()
        last = self.arriving.began_behind
        start.record_facts(arrival=last.token if last else "none", stopped=", ".join(sorted(self.copier.stopped)))
        start.record_decision(f"copy {self._context.region} after arrival {last.token if last else 'none'}")

    def _round(self) -> None:
        self.metrics.count_round()
        self.copier.check_settings()
        self._announce()
        if self.arriving.paused or not self.copier.busy or not self._throttle.free(self._context.clock_s()):
            self._stop.wait(WAIT_S)
        else:
            size = self.copier.round(WAIT_S, self._throttle.piece(BYTES), self._announce)
            self._throttle.record_bytes(size, self._context.clock_s())
        if (safe := self._standing.measure(self.arriving.ledger)) is not None:
            self.metrics.safe(safe)
        if self._forks is not None:
            self._forks.check()
        self._follow()

    def _follow(self) -> None:
        """Copy the topics that are not copied yet; changelogs are those that the copied stream names."""
        self._topics |= {topics.changelog(self._job.name, one) for one in self.arriving.generations}
        self.copier.promoted = max(self.arriving.generations, default=None)
        for topic in sorted(self._topics):
            self.copier.follow(topic)

    def _unreadable(self, pieces: Sequence[FetchedRecords]) -> Mapping[str, Gap]:
        """Check before events are written that their schema ids mean the same here."""
        topic = self._job.source
        if self._schemas is None or topic in self.copier.stopped:
            return {}
        values = (record.value for one in pieces if one.followed.name == topic for record in one.records)
        gap = self._schemas.look(confluent_numbers(values))
        return {} if gap is None else {topic: gap}

    def _announce(self) -> None:
        """Announce arrivals. If the stream contradicts itself, or has a record that this version does not know,
        nothing arrives any more; copying continues.
        """
        self.arriving.listen()
        stream = topics.milestones(self._job.name)
        known = self.copier.stopped.get(stream)
        if known is not None and known.cause == BROKEN:
            return
        try:
            self.arriving.step()
        except (DivergenceError, UnknownRecordError) as error:
            self.copier.stop(stream, Gap(BROKEN, str(error)))


def _require_two(own: Cluster, origin: Cluster) -> None:
    """Raise UsageError for one cluster: a copied changelog keeps its name, and would be copied endlessly."""
    if cluster_id(own) == cluster_id(origin):
        raise UsageError(
            f"CUTWATER_ORIGIN_BOOTSTRAP_SERVERS ({origin.bootstrap}) and CUTWATER_BOOTSTRAP_SERVERS "
            f"({own.bootstrap}) are the same cluster: a mirror copies from another cluster"
        )


def _build(job: Job, settings: Settings, log: Any) -> Mirror:
    mirror_records.require_copy_name(job.source, settings.origin)
    own, origin = settings.cluster, settings.origin_cluster
    start = account("mirror", job.name, settings.generation, own, log)
    with start.step("waiting for the brokers"):
        await_brokers(own, settings.wait_ms / 1000, log)
        await_brokers(origin, settings.wait_ms / 1000, log)
    context = MirrorContext(own, Origin(origin), job.name, settings.origin, log, Metrics())
    serve(context.metrics.registry, settings, "CUTWATER_MIRROR_PORT", log)
    return Mirror(
        context,
        job,
        account=start,
        slots=settings.slots,
        replication=replication.decide(brokers(own), settings.replication_factor, settings.min_insync_replicas),
        bytes_per_s=settings.mirror_bytes_per_s,
        kept=settings.kept_topic_settings,
        forks=ForkWatch(context, job) if 0 in settings.slots else None,
        schemas=schemas_of(job, settings, log, context.metrics, context.clock_s),
        exporter=exporter_of(settings),
        region=settings.region,
    )


def main() -> int:
    """Run the service; return the exit code."""
    return run_service("mirror", _build)
