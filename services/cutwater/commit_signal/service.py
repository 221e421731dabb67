"""commit-signal: reads the barriers topic, writes milestones. The composition root of the service.

python -m cutwater.commit_signal JOBFILE
"""

from __future__ import annotations

from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.metrics_server import serve
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.startup_wait import await_brokers
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.recovery_log import account
from cutwater.commit_signal.metrics import Metrics
from cutwater.commit_signal.signaller import CommitSignal
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.operations.regions.rejoin import rejoin_check
from cutwater.operations.service_main import run_service


def _build(job: Job, settings: Settings, log: Any) -> CommitSignal:
    start = account("commit-signal", job.name, settings.generation, settings.cluster, log)
    with start.step("waiting for the brokers"):
        await_brokers(settings.cluster, settings.wait_ms / 1000, log)
    for topic in (topics.barriers(job.name), topics.milestones(job.name)):
        partition_count(settings.cluster, topic)
    metrics = Metrics()
    serve(metrics.registry, settings, "CUTWATER_SIGNAL_PORT", log)
    work = (settings.cluster, job.name, settings.generation)
    asking = rejoin_check(job, settings)
    return CommitSignal(*work, now_ms, log, start, metrics, beside=settings.beside, returning=asking)


def main() -> int:
    return run_service("commit-signal", _build)
