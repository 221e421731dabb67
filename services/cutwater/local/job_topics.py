"""The topics of a job on the cluster that its stack uses: the embedded broker's, or the user's own."""

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
from cutwater.local import added_topics


def create_embedded(cluster: Cluster, job: Job, generation: Generation) -> None:
    """All topics, a declared source included; raises UsageError when one that exists has wrong settings."""
    admin.ensure_topics(
        cluster, topics.owned(job.name, generation, job.shards.partitions, job.output, job.lists_retention_ms)
    )
    if not job.attached:  # what a query of the user's own reads is not known here
        _create_source(cluster, job)


def prepare(
    cluster: Cluster, job: Job, settings: Settings, report: Callable[[str], None], *, source: bool = False
) -> list[str]:
    """Cutwater's topics on the user's cluster, with copies that are safe there; what is added is written down.

    The source topic must exist, unless `source` says to create it: a name mistyped in a job file shall not become
    a topic. Returns the names of those created. Raises UsageError for that, for settings that differ and for
    copies the cluster cannot hold; UnavailableError when nobody answers.
    """
    wait_for_broker(cluster, settings.wait_ms / 1000)
    brokers = admin.brokers(cluster)
    copies = replication.decide(brokers, settings.replication_factor, settings.min_insync_replicas)
    for doubt in replication.doubts(copies, brokers):
        report(f"warning: {doubt}")
    given = _source(cluster, job, copies, source)
    specs = topics.owned(job.name, settings.generation, job.shards.partitions, job.output, job.lists_retention_ms)
    missing = admin.missing_topics(cluster, specs)
    added_topics.intend(cluster, settings.data_dir.resolve(), job.name, job.topic, [one.name for one in specs])
    made = admin.create_topics(cluster, missing, copies)
    if made:
        report(f"created on your cluster: {', '.join(made)} ('cutwater down --delete' removes them)")
    return [*given, *made]


def _source(cluster: Cluster, job: Job, copies: Replication, create: bool) -> list[str]:
    """Those created: the source topic, or none."""
    if job.attached or admin.described(cluster, [job.topic]):
        return []
    if create:
        return _create_source(cluster, job, copies)
    raise UsageError(
        f"the source topic {job.topic} does not exist at {cluster.bootstrap}: create it, or correct "
        "source.topic in the job file"
    )


def _create_source(cluster: Cluster, job: Job, copies: Replication = replication.UNREPLICATED) -> list[str]:
    """The source is the user's: made where it is missing, and left as it is where it exists."""
    return admin.create_topics(cluster, [topics.events(job.topic, job.shards.partitions)], copies)
