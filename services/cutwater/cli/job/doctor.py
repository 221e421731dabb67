"""`doctor`: checks that this machine and the cluster have everything that a job needs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.config.policy_file import read_policy
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.cli.options import BootstrapOption, DataDirOption, JsonOption, WideOption, cluster_for, settings_for
from cutwater.cli.report import err, print_report, report_errors
from cutwater.core.checks import acls, replication
from cutwater.core.checks.cluster import ClusterFacts, check_cluster, check_topics
from cutwater.core.checks.findings import Finding, Level, error, ok, skipped, worst
from cutwater.core.checks.machine import MB, Need, check_machine, check_spark
from cutwater.core.checks.measure_costs import check_measures
from cutwater.core.checks.policy import check_policy
from cutwater.core.checks.source_topic import check_rights, check_source
from cutwater.core.errors import CutwaterError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.util.text_tables import Column, Styled
from cutwater.local import machine_probes
from cutwater.operations import cluster_facts
from cutwater.operations.transform_check import check_transform

_COLOURS = {Level.OK: "green", Level.SKIPPED: "dim", Level.WARNING: "yellow", Level.ERROR: "red"}


@report_errors
def doctor(
    job_file: Annotated[
        Path | None, typer.Argument(help="The job file. Without one, only machine and brokers are checked.")
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Compare clocks too. Creates a topic and deletes it again."),
    ] = False,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Check this machine, the brokers and a job's topics, and print how to fix each problem.

    Without --probe nothing is written anywhere. If no brokers are named, those of the running stack are checked.

    Exit 0: no error, but perhaps warnings. 1: at least one error. 2: a setting or an option is wrong.

    Examples:  cutwater doctor  ·  cutwater doctor deploy/jobs/flights.yaml
    ·  cutwater doctor job.yaml --bootstrap-servers kafka-1:9092 --probe --json
    """
    settings = settings_for(data_dir, bootstrap_servers)
    with err.status("checking") as status:
        findings = []
        for one in findings_of(job_file, settings, cluster_for(settings, bootstrap_servers), probe):
            findings.append(one)
            status.update(f"checked {one.check}")
    level = worst(findings)
    columns = ("", "check", Column("found", below=True), Column("what to do", below=True))
    document = {"level": level, "findings": [asdict(one) for one in findings]}
    print_report("cutwater doctor", columns, map(_row, findings), document, as_json)
    return 1 if level is Level.ERROR else 0


def _row(one: Finding) -> tuple[str | Styled, ...]:
    return Styled(one.level, _COLOURS[one.level]), one.check, one.found, one.remedy


def findings_of(
    job_file: Path | None, settings: Settings, cluster: Cluster | None, probe: bool
) -> Iterator[Finding]:
    """Yield what was found, check by check. `cluster`: None leaves the brokers out."""
    job, problem = _job(job_file)
    need = Need(
        driver_heap_bytes=machine_probes.heap_bytes(settings.spark_driver_memory),
        state_bytes=settings.state_memory_mb * MB,
        embedded_broker=cluster is None,
    )
    yield from check_machine(
        machine_probes.inspect_machine(settings.data_dir, cluster is None, settings.checkpoint), need
    )
    lacks_secret = settings.needs_spark_secret and not settings.spark_secret.get_secret_value()
    yield from check_spark(settings.spark_master, settings.spark_authenticate, lacks_secret)
    if problem:
        yield problem
    elif job:
        yield ok("job file", f"job {job.name}: {len(job.measures)} measures, windows of {job.window.size_ms:,} ms")
        yield check_measures(job)
        if job_file and (found := check_transform(job, job_file)):
            yield found
        yield from check_policy(job, read_policy(settings.policy)) if settings.policy else ()
    if cluster is None:
        yield skipped("brokers", "none is named", "give --bootstrap-servers, or let 'cutwater up' start one")
        return
    yield from _cluster(cluster, job, settings, probe)


def _job(path: Path | None) -> tuple[Job | None, Finding | None]:
    try:
        return (load_job(path) if path else None), None
    except UsageError as wrong:
        return None, error("job file", str(wrong), "correct it; docs/JOBFILE.md lists the fields")


def _cluster(cluster: Cluster, job: Job | None, settings: Settings, probe: bool) -> Iterator[Finding]:
    facts = cluster_facts.read_brokers(cluster)
    if probe and not facts.problem:
        name = f"{job.name if job else 'cutwater'}.doctor-{uuid.uuid4().hex[:8]}"
        facts = cluster_facts.with_clock(cluster, facts, name)
    wanted = (settings.replication_factor, settings.min_insync_replicas)
    yield from check_cluster(facts, *wanted)
    if job and not facts.problem:
        yield from _topics(cluster, facts, job, settings)


def _topics(cluster: Cluster, facts: ClusterFacts, job: Job, settings: Settings) -> Iterator[Finding]:
    try:
        job, settings = working_for(job, settings, cluster)
    except CutwaterError as wrong:
        yield error("generation", str(wrong), "the topics of the first generation are checked instead")
    copies = replication.decide(facts.brokers, settings.replication_factor, settings.min_insync_replicas)
    specs = topics.generation_topics(
        job.name, settings.generation, job.shards.partitions, job.output, job.lists_retention_ms
    )
    facts = cluster_facts.read_topics(cluster, facts, job.topic, specs, copies)
    if job.attached:
        yield skipped("source", "the query is your own", "check the topics that it reads yourself")
    else:
        position = cluster_facts.position(cluster, job.name, job.topic, now_ms())
        yield from check_source(job, facts, position, cluster_facts.undatable_of(cluster, facts, job.topic))
    yield from check_topics(facts, specs, copies)
    yield from check_rights(facts, acls.required_acls(job.name, job.topic, settings.generation))


def register(app: typer.Typer) -> None:
    app.command()(doctor)
