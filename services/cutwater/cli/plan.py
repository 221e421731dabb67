"""`plan`: what a job will add to a cluster, before it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters import admin
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.generations import working_for
from cutwater.adapters.jobfile import load_job
from cutwater.adapters.kafka import wait_for_broker
from cutwater.adapters.measured import measure
from cutwater.adapters.settings import Settings
from cutwater.cli.options import BootstrapOption, DataDirOption, JsonOption, WideOption, cluster_for, settings_for
from cutwater.cli.output import err, handled, out, print_json, say, table
from cutwater.core import acls, estimate, replication, topics
from cutwater.core.estimate import Load
from cutwater.core.job import Job
from cutwater.core.plan import Measured, Mirroring, Plan, size
from cutwater.core.text_tables import Column, Lines, Table

ANSWER_S = 10.0


@handled
def plan(
    job_file: Annotated[Path, typer.Argument(help="The job file.")],
    events_per_second: Annotated[float, typer.Option(min=0.001, max=1e9, help="Events a second.")] = 1_000.0,
    keys: Annotated[int, typer.Option(min=1, max=10**12, help="Different keys.")] = 10_000,
    event_bytes: Annotated[int, typer.Option(min=1, max=10**9, help="Bytes of one event.")] = 200,
    principal: Annotated[str, typer.Option(help="Whom the kafka-acls commands name.")] = "User:cutwater",
    mirror_of: Annotated[
        str | None,
        typer.Option(help="With the rights of a mirror of this region; default CUTWATER_ORIGIN_REGION."),
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Print the topics, rights, disk and network that a job will add. Nothing is written.

    With brokers named, what exists there counts, the promoted generation with its partitions too, and where the
    job ran the bytes per row are measured. Without, three brokers are assumed. docs/OPERATING.md has the formula.
    Where another region is named, what a mirror of it needs in both regions is among the rights, and what driver
    and commit-signal need there, which ask it before they go on.

    Exit 2: the job file, a setting or an option is wrong. 4: the named brokers do not answer.

    Examples:  cutwater plan deploy/jobs/flights.yaml
    ·  cutwater plan job.yaml --events-per-second 5000 --keys 100000 --event-bytes 400 --json
    ·  cutwater plan job.yaml --mirror-of us --principal User:mirror
    """
    settings = settings_for(data_dir, bootstrap_servers)
    job = load_job(job_file)
    cluster = cluster_for(settings, bootstrap_servers)
    with err.status("asking the cluster" if cluster else "planning"):
        made = _plan(job, settings, cluster, (events_per_second, keys, event_bytes))
        made = _mirrored(made, settings, mirror_of or settings.origin_region)
    if as_json:
        print_json({**made.plain(), "commands": made.commands(principal)})
    else:
        _show(made, principal)


def _plan(job: Job, settings: Settings, cluster: Cluster | None, said: tuple[float, int, int]) -> Plan:
    if cluster:
        wait_for_broker(cluster, ANSWER_S)
        job, settings = working_for(job, settings, cluster)
    specs = topics.owned(job.name, settings.generation, job.shards.partitions, job.output)
    brokers, existing, source_partitions, measured = replication.FACTOR_WANTED, frozenset[str](), None, None
    if cluster:
        brokers = admin.brokers(cluster)
        found = admin.describe_topics(cluster, [*([job.topic] if job.topic else []), *(one.name for one in specs)])
        existing = frozenset(found)
        source_partitions = found[job.topic].partitions if job.topic in found else None
        changelog = topics.changelog(job.name, settings.generation)
        measured = measure(cluster, job.name, settings.generation) if changelog in found else None
    copies = replication.decide(brokers, settings.replication_factor, settings.min_insync_replicas)
    per_second, keys, event_bytes = said
    load = Load(per_second, keys, event_bytes, max(settings.trigger_ms, 300) / 1_000, source_partitions or 4)
    comes_to = estimate.estimate(job, load, measured.row_bytes if measured else None)
    return Plan(
        job=job.name,
        source=job.topic,
        bootstrap=cluster.bootstrap if cluster else None,
        topics=specs,
        existing=existing,
        replication=copies,
        warnings=[*replication.doubts(copies, brokers), *estimate.doubts(job, comes_to)],
        acls=acls.needed(job.name, job.topic, settings.generation),
        load=load,
        estimate=comes_to,
        measured=measured,
    )


def _mirrored(made: Plan, settings: Settings, origin: str) -> Plan:
    """With the rights of a mirror; `origin` is empty where nothing is mirrored here."""
    if not origin:
        return made
    bootstrap = (origin == settings.origin_region and settings.origin_bootstrap_servers) or None
    there = Mirroring(origin, bootstrap, acls.mirror_there(made.job, made.source))
    return replace(made, acls=[*made.acls, *acls.mirror_here(made.job, made.source, origin)], mirrors=[there])


def _show(made: Plan, principal: str) -> None:
    rows = (
        (
            one.name,
            "exists" if one.name in made.existing else "new",
            one.partitions,
            Lines(tuple(f"{name}={value}" for name, value in one.config)),
        )
        for one in made.topics
    )
    where = made.bootstrap or "three brokers (none was asked)"
    copies = f"{made.replication.factor} copies, {made.replication.min_insync} must acknowledge"
    title = f"topics of job {made.job} at {where}: {copies}"
    out.table(table(title, ("topic", "", "partitions", Column("settings", below=True)), rows))
    for line in made.warnings:
        say(f"warning: {line}")
    out.table(_rights("rights per service", made.acls))
    for one in made.mirrors:
        out.table(_rights(f"rights of the mirror in region {one.region}, where it only reads", one.acls))
    commands = made.commands(principal)
    out.print(f"as one user, {len(commands)} commands:")
    for line in commands:
        out.print(f"  {line}", whole=True)
    out.table(table(_load(made.load), ("what", "how much"), _amounts(made)))


def _rights(title: str, listed: Sequence[acls.Acl]) -> Table:
    rows = ((one.service, one.resource, _named(one), " ".join(one.operations)) for one in listed)
    return table(title, ("service", "resource", "name", Column("operations", below=True)), rows)


def _named(one: acls.Acl) -> str:
    return f"{one.name}*" if one.prefixed else one.name


def _load(load: Load) -> str:
    return (
        f"added by {load.events_per_s:,.10g} events/s of {load.event_bytes:,} bytes over {load.keys:,} keys, "
        f"an epoch every {load.epoch_s:g} s"
    )


def _amounts(made: Plan) -> Iterator[tuple[str, str]]:
    one, copies = made.estimate, made.replication.factor
    yield "changelog rows", f"{one.rows_per_s:,.0f}/s of {one.row_bytes:,.0f} bytes ({_origin(made.measured)})"
    yield "written to the changelog", f"{size(one.changelog_write_bytes_per_s)}/s, and read once by the view"
    yield "barriers and milestones", f"{size(one.protocol_write_bytes_per_s)}/s"
    yield "read from the source", f"{size(one.source_read_bytes_per_s)}/s"
    yield f"network in all, {copies} copies", f"{size(one.network_bytes_per_s(copies))}/s"
    yield "rows in the state", f"{one.live_rows:,.0f}"
    yield (
        f"disk of the cluster, {copies} copies",
        f"{size(one.changelog_disk_bytes * copies)} after the retention",
    )
    grown = (one.closed_rows_bytes_per_day + one.protocol_disk_bytes_per_day) * copies
    yield "and each day more", f"{size(grown)}: windows that have left are not cleared, milestones not pruned yet"
    yield "disk of this machine", size(one.local_disk_bytes)


def _origin(measured: Measured | None) -> str:
    if measured is None:
        return "by the measures' types"
    per_event = f", {measured.rows_per_event:.3g} rows per event" if measured.rows_per_event is not None else ""
    return f"measured on {measured.sampled} records{per_event}"


def register(app: typer.Typer) -> None:
    app.command()(plan)
