"""`plan`: what a job will add to a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cutwater.adapters.config.policy_file import read_policy
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.registry import registry_for
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.cli.options import BootstrapOption, DataDirOption, JsonOption, WideOption, cluster_for, settings_for
from cutwater.cli.report import err, out, print_json, print_note, report_errors, table
from cutwater.core.checks import acls, capacity, event_sample, replication
from cutwater.core.checks.capacity import Load
from cutwater.core.checks.event_sample import SampledEvent, SampleFigures
from cutwater.core.checks.findings import Level
from cutwater.core.checks.measure_costs import MeasureCost, costs_of
from cutwater.core.checks.plan import Mirroring, Plan, size
from cutwater.core.checks.policy import check_policy
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.util.text_tables import Column, Lines, Table
from cutwater.operations.event_sample import sample_events
from cutwater.operations.job_volume import measure

ANSWER_S = 10.0


class LoadOptions(NamedTuple):
    """The load as far as the command line gives it."""

    events_per_s: float | None
    keys: int | None
    event_bytes: int | None

    def load(self, sampled: SampleFigures | None, epoch_s: float, source_partitions: int) -> Load:
        """Return the load: a value that is not given is the sample's, else a guess."""
        usual = Load(epoch_s=epoch_s, source_partitions=source_partitions)
        if sampled:
            shown = (sampled.events_per_s, sampled.keys, max(round(sampled.event_bytes), 1))
            usual = replace(usual, events_per_s=shown[0], keys=shown[1], event_bytes=shown[2])
        said = {name: value for name, value in self._asdict().items() if value is not None}
        return replace(usual, **said)


@report_errors
def plan(
    job_file: Annotated[Path, typer.Argument(help="The job file.")],
    events_per_second: Annotated[
        float | None,
        typer.Option(min=0.001, max=1e9, help="Events per second. Default: from the sample, else 1,000."),
    ] = None,
    keys: Annotated[
        int | None, typer.Option(min=1, max=10**12, help="Number of keys. Default: from the sample, else 10,000.")
    ] = None,
    event_bytes: Annotated[
        int | None, typer.Option(min=1, max=10**9, help="Bytes per event. Default: from the sample, else 200.")
    ] = None,
    principal: Annotated[str, typer.Option(help="The principal of the kafka-acls commands.")] = "User:cutwater",
    mirror_of: Annotated[
        str | None,
        typer.Option(help="Add the ACLs of a mirror of this region. Default: CUTWATER_ORIGIN_REGION."),
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Print the topics, ACLs, disk and network that a job will add. Nothing is written.

    If brokers are named, their existing topics and the promoted generation's partitions are taken into account.
    The newest events of the source are sampled for rate, keys, rows per window and bytes per row; if the job has
    run, its rows are measured. Figures that no sample supports are upper bounds, with the reason. Without brokers,
    three are assumed. docs/OPERATING.md has the formula. If another region is named, the ACLs include those that a
    mirror of it needs in both regions, and those that driver and commit-signal need there to query that region
    before they continue.

    Exit 2: the job file, a setting or an option is wrong. 4: the named brokers do not answer.

    Examples:  cutwater plan deploy/jobs/flights.yaml
    ·  cutwater plan job.yaml --events-per-second 5000 --keys 100000 --event-bytes 400 --json
    ·  cutwater plan job.yaml --mirror-of us --principal User:mirror
    """
    settings = settings_for(data_dir, bootstrap_servers)
    job = load_job(job_file)
    cluster = cluster_for(settings, bootstrap_servers)
    with err.status("querying the cluster" if cluster else "planning"):
        made = _plan(job, settings, cluster, LoadOptions(events_per_second, keys, event_bytes))
        made = _mirrored(made, settings, mirror_of or settings.origin_region)
    if as_json:
        print_json({**made.plain(), "commands": made.commands(principal)})
    else:
        _show(made, principal)


def _broken(job: Job, settings: Settings) -> list[str]:
    """Return what the job breaks of the policy of the settings."""
    found = check_policy(job, read_policy(settings.policy)) if settings.policy else []
    return [f"the policy is broken: {one.found}; {one.remedy}" for one in found if one.level is Level.ERROR]


def _plan(job: Job, settings: Settings, cluster: Cluster | None, said: LoadOptions) -> Plan:
    if cluster:
        wait_for_broker(cluster, ANSWER_S)
        job, settings = working_for(job, settings, cluster)
    specs = topics.generation_topics(
        job.name, settings.generation, job.shards.partitions, job.output, job.lists_retention_ms
    )
    brokers, existing, source_partitions, measured = replication.FACTOR_WANTED, frozenset[str](), None, None
    events: list[SampledEvent] = []
    if cluster:
        brokers = admin.brokers(cluster)
        found = admin.describe_topics(cluster, [*([job.topic] if job.topic else []), *(one.name for one in specs)])
        existing = frozenset(found)
        source_partitions = found[job.topic].partitions if job.topic in found else None
        changelog = topics.changelog(job.name, settings.generation)
        measured = measure(cluster, job.name, settings.generation) if changelog in found else None
        events = sample_events(cluster, job, registry_for(job, settings)) if source_partitions else []
    copies = replication.decide(brokers, settings.replication_factor, settings.min_insync_replicas)
    epoch_s = max(settings.trigger_ms, 300) / 1_000
    sampled = event_sample.measure_sample(job, events, epoch_s, said.events_per_s)
    load = said.load(sampled, epoch_s, source_partitions or 4)
    sizes = capacity.sizes_of(job, sampled.state, sampled.written) if sampled else capacity.sizes_of(job)
    if measured:
        sizes = replace(sizes, row=max(sizes.row, measured.row_bytes) if sampled else measured.row_bytes)
        sizes = replace(sizes, written=measured.row_bytes)
    other_load = said.keys is not None or (sampled is not None and not _alike(load, sampled))
    counted = None if other_load else sampled
    comes_to = capacity.estimate(job, load, sizes, counted, settings.collect_share)
    return Plan(
        job=job.name,
        source=job.source,
        bootstrap=cluster.bootstrap if cluster else None,
        topics=specs,
        existing=existing,
        replication=copies,
        warnings=[*replication.doubts(copies, brokers), *capacity.doubts(job, comes_to), *_broken(job, settings)],
        acls=acls.required_acls(job.name, job.source, settings.generation),
        load=load,
        estimate=comes_to,
        measures=costs_of(job, sampled.state if sampled else None),
        measured=measured,
        sampled=sampled,
        unknown=capacity.list_uncertainties(job, sampled, measured is not None, other_load),
    )


def _alike(load: Load, sampled: SampleFigures) -> bool:
    """Return whether the rate equals the sample's, within the factor that figures are accurate to."""
    ratio = load.events_per_s / sampled.events_per_s
    return 1 / capacity.SURE_FACTOR <= ratio <= capacity.SURE_FACTOR


def _mirrored(made: Plan, settings: Settings, origin: str) -> Plan:
    """Return the plan with the ACLs of a mirror. `origin`: the mirrored region, or empty."""
    if not origin:
        return made
    bootstrap = (origin == settings.origin_region and settings.origin_bootstrap_servers) or None
    there = Mirroring(origin, bootstrap, acls.origin_mirror_acls(made.job, made.source))
    return replace(
        made, acls=[*made.acls, *acls.local_mirror_acls(made.job, made.source, origin)], mirrors=[there]
    )


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
    where = made.bootstrap or "three assumed brokers"
    copies = f"{made.replication.factor} copies, {made.replication.min_insync} must acknowledge"
    title = f"topics of job {made.job} at {where}: {copies}"
    out.table(table(title, ("topic", "", "partitions", Column("settings", below=True)), rows))
    for line in made.warnings:
        print_note(f"warning: {line}")
    for line in made.unknown:
        print_note(f"cannot be estimated within a factor of {capacity.SURE_FACTOR:g}: {line}")
    out.table(_rights("ACLs per service", made.acls))
    for one in made.mirrors:
        out.table(_rights(f"ACLs of the mirror in region {one.region}, where it only reads", one.acls))
    commands = made.commands(principal)
    out.print(f"as one user, {len(commands)} commands:")
    for line in commands:
        out.print(f"  {line}", whole=True)
    out.table(_costs(made.measures))
    out.table(table(_load(made), ("what", "how much"), _amounts(made)))


def _costs(measures: Sequence[MeasureCost]) -> Table:
    columns = (
        *("measure", "kept", Column("changelog and view", 1), Column("output", 1), Column("Spark's state", 1)),
        Column("a generation from a milestone", below=True),
    )
    rows = ((one.name, one.kept, *map(size, one.bytes), one.restore) for one in measures)
    return table("bytes of each measure in one row, at most", columns, rows)


def _rights(title: str, listed: Sequence[acls.Acl]) -> Table:
    rows = ((one.service, one.resource, _named(one), " ".join(one.operations)) for one in listed)
    return table(title, ("service", "resource", "name", Column("operations", below=True)), rows)


def _named(one: acls.Acl) -> str:
    return f"{one.name}*" if one.prefixed else one.name


def _load(made: Plan) -> str:
    load, sampled = made.load, made.sampled
    seen = f", from a sample of {sampled.events:,}" if sampled else ""
    return (
        f"added by {load.events_per_s:,.6g} events/s of {load.event_bytes:,} bytes, {load.keys:,} keys{seen}, "
        f"an epoch every {load.epoch_s:g} s"
    )


def _amounts(made: Plan) -> Iterator[tuple[str, str]]:
    one, copies = made.estimate, made.replication.factor
    most = "at most " if made.unknown else ""
    yield (
        "changelog rows",
        f"{most}{one.rows_per_s:,.3g}/s of {one.written_row_bytes:,.0f} bytes ({_origin(made)})",
    )
    yield "written to the changelog", f"{most}{size(one.changelog_write_bytes_per_s)}/s"
    if one.output_row_bytes:
        yield "written to the output", f"{most}{size(one.output_write_bytes_per_s)}/s"
    yield "barriers and milestones", f"{size(one.protocol_write_bytes_per_s)}/s"
    yield "read from the source", f"{size(one.source_read_bytes_per_s)}/s"
    yield f"network in all, {copies} copies", f"{most}{size(one.network_bytes_per_s(copies))}/s"
    yield (
        "rows in the state",
        f"{most}{one.live_rows:,.0f} of {one.view_row_bytes:,.0f} bytes: {size(one.view_bytes)}",
    )
    yield (
        f"disk of the cluster, {copies} copies",
        f"{most}{size((one.changelog_disk_bytes + one.output_disk_bytes) * copies)} after the retentions",
    )
    yield "growth per day", f"{size(_growth_per_day(made) * copies)}: {_growing(made)}"
    yield "disk of this machine", f"{most}{size(one.local_disk_bytes)}"


def _growth_per_day(made: Plan) -> float:
    return made.estimate.closed_rows_bytes_per_day + made.estimate.protocol_disk_bytes_per_day


def _growing(made: Plan) -> str:
    kept = "barriers and milestones are kept; windows behind the horizon are cleared"
    return kept if not made.estimate.closed_rows_bytes_per_day else "CUTWATER_COLLECT_SHARE=1 clears no window"


def _origin(made: Plan) -> str:
    measured = made.measured
    if measured is None:
        return f"from a sample of {made.sampled.events:,} events" if made.sampled else "from the measures' types"
    per_event = f", {measured.rows_per_event:.3g} rows per event" if measured.rows_per_event is not None else ""
    return f"measured on {measured.sampled} records{per_event}"


def register(app: typer.Typer) -> None:
    app.command()(plan)
