"""The topics of a job on its stack's cluster: the embedded broker, or the user's."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.checks import replication
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import require_copy_name
from cutwater.local import added_topics


def create_embedded(cluster: Cluster, job: Job, generation: Generation) -> None:
    """Create all topics, including a declared source. Raise UsageError if an existing one has wrong settings."""
    admin.ensure_topics(
        cluster,
        topics.generation_topics(job.name, generation, job.shards.partitions, job.output, job.lists_retention_ms),
    )
    if not job.attached:  # the sources of the user's own query are not known here
        _create_source(cluster, job)


def prepare(
    cluster: Cluster, job: Job, settings: Settings, report: Callable[[str], None], *, source: bool = False
) -> list[str]:
    """Create Cutwater's topics on the user's cluster, safely replicated, and record what is added.

    The source topic must exist unless `source` is set: a typing error in a job file must not create a topic.
    Return the names of the created topics. Raise UsageError if the source is missing, settings differ or the
    cluster cannot hold the replicas, or a mirror could not name the source's copy; UnavailableError if no broker
    answers.
    """
    for region in (settings.origin_region, settings.region) if settings.origin_region else ():
        require_copy_name(job.source, region)
    wait_for_broker(cluster, settings.wait_ms / 1000)
    brokers = admin.brokers(cluster)
    copies = replication.decide(brokers, settings.replication_factor, settings.min_insync_replicas)
    for doubt in replication.doubts(copies, brokers):
        report(f"warning: {doubt}")
    given = _source(cluster, job, copies, source)
    specs = topics.generation_topics(
        job.name, settings.generation, job.shards.partitions, job.output, job.lists_retention_ms
    )
    missing = admin.missing_topics(cluster, specs)
    added_topics.intend(cluster, settings.data_dir.resolve(), job.name, job.topic, [one.name for one in specs])
    made = admin.create_topics(cluster, missing, copies)
    if made:
        report(f"created on your cluster: {', '.join(made)} ('cutwater down --delete' removes them)")
    return [*given, *made]


def _source(cluster: Cluster, job: Job, copies: Replication, create: bool) -> list[str]:
    if job.attached or admin.descriptions(cluster, [job.topic]):
        return []
    if create or job.upstream:
        return _create_source(cluster, job, copies)
    raise UsageError(
        f"the source topic {job.topic} does not exist at {cluster.bootstrap}: create it, or correct "
        "source.topic in the job file"
    )


def _create_source(cluster: Cluster, job: Job, copies: Replication = replication.UNREPLICATED) -> list[str]:
    # The source belongs to the user: it is created if missing, and otherwise left unchanged.
    if job.upstream and not admin.descriptions(cluster, [job.topic]):
        raise UsageError(
            f"the source topic {job.topic} does not exist at {cluster.bootstrap}: it is the output of job "
            f"{job.upstream}, so start that job first"
        )
    return admin.create_topics(cluster, [topics.events(job.topic, job.shards.partitions)], copies)
