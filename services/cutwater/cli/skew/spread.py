"""`skew plan`, `skew spread` and `skew unspread`: the spreading plan of a job's producers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.process_name import process_name
from cutwater.adapters.topics.spread_plan import SpreadState
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobContext,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.report import iso, out, print_json, print_note, report_errors, table
from cutwater.core.access.actions import SPREAD, UNSPREAD
from cutwater.core.checks.replication import Replication
from cutwater.core.skew.spread_plan import SILENT_MS, Adoption, Spread, order_losses
from cutwater.core.util.text_tables import Column
from cutwater.operations.generations.claims import copies_of
from cutwater.operations.skew.spread_control import SpreadChange, SpreadControl

KeyArgument = Annotated[str, typer.Argument(help="The key, as rows have it.")]
JobFileOption = Annotated[
    Path | None,
    typer.Option(
        "--job-file", help="The job file, needed with --bootstrap-servers. Default: the running stack's."
    ),
]
ReasonOption = Annotated[str, typer.Option(help="The reason, as 'skew plan' shows it.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]


@report_errors
def plan(
    job_file: JobOption = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the spreading plan: its version, its keys, and which producers work with which version.

    A producer says so when it adopts a version, and once a minute. One that said nothing for three minutes is
    shown as silent: it was killed, or is cut off.

    Exit 2: no stack runs. 4: no broker answers.

    Examples:  cutwater skew plan  ·  cutwater skew plan job.yaml --bootstrap-servers kafka-1:9092 --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    state, now = SpreadControl(place.cluster, place.job, now_ms).state(), now_ms()
    if as_json:
        print_json(_document(place.job.name, state.plan, state.adoptions, now))
    else:
        _show(place.job.name, state, now)


@report_errors
def spread(
    key: KeyArgument,
    over: Annotated[int, typer.Option(min=2, help="Source partitions that get the key's events.")],
    allow_order: Annotated[
        bool, typer.Option("--allow-order", help="Although a measure depends on the order in the source.")
    ] = False,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    job_file: JobFileOption = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Spread the events of a hot key over several source partitions, by the job's producers.

    This writes the next version of the plan. Each EventProducer has it in force within a second, and says so. Rows
    stay exact, as the job groups by key. The key's events lose their order between partitions: a job with first,
    last, min_by or max_by is refused without --allow-order, and the order of the others does not matter.

    Partitions are the key's own and the least loaded of the others. Repeating the command with another --over
    changes it; 'cutwater skew unspread' takes it back.

    Exit 2: the key cannot be spread. 4: no broker answers. 6: another process changes the plan at this moment.

    Examples:  cutwater skew spread JFK --over 3  ·  cutwater skew spread JFK --over 3 --dry-run
    ·  cutwater skew spread JFK --over 4 --reason "holidays" --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    key = place.job.stored_key(key)
    control, change = SpreadControl(place.cluster, place.job, now_ms), SpreadChange(process_name(), reason)
    if dry_run:
        made = control.planned(key, over, change, allow_order)
    else:
        given = {"over": over, "allow_order": allow_order, "reason": reason}
        with audit_action(SPREAD, place.settings, place.cluster, place.job.name, key, given=given) as action:
            made = control.spread(key, over, change, allow_order, _copies(place))
            action.record_result(f"version {made.version}")
    for loss in order_losses(place.job):
        print_note(f"warning: {loss}")
    _report(made, key, dry_run, as_json)


@report_errors
def unspread(
    key: KeyArgument,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    job_file: JobFileOption = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a key off the spreading plan: its events go to one source partition again.

    This writes the next version of the plan. Events that are in several partitions stay there, and are counted.

    Exit 2: the key is not spread. 4: no broker answers. 6: another process changes the plan at this moment.

    Examples:  cutwater skew unspread JFK  ·  cutwater skew unspread JFK --dry-run
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    key = place.job.stored_key(key)
    control, change = SpreadControl(place.cluster, place.job, now_ms), SpreadChange(process_name(), reason)
    if dry_run:
        made = control.planned_without(key, change)
    else:
        given = {"reason": reason}
        with audit_action(UNSPREAD, place.settings, place.cluster, place.job.name, key, given=given) as action:
            made = control.unspread(key, change, _copies(place))
            action.record_result(f"version {made.version}")
    _report(made, key, dry_run, as_json)


def _copies(place: JobContext) -> Replication:
    settings = place.settings
    return copies_of(place.cluster, settings.replication_factor, settings.min_insync_replicas)


def _report(made: Spread, key: str, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"key": key, "written": not dry_run, **_plan_json(made)})
        return
    would = "would be" if dry_run else "is"
    found = made.find(key)
    where = f"over the source partitions {_numbers(found.partitions)}" if found else "no longer spread"
    out.print(f"version {made.version} {would} written: {key} {where}")
    if not dry_run:
        out.print("'cutwater skew plan' shows which producers have adopted it")


def _numbers(partitions: tuple[int, ...]) -> str:
    return ", ".join(map(str, partitions))


def _show(job: str, state: SpreadState, now: int) -> None:
    made = state.plan
    if made is None:
        out.print(f"job {job} has no spreading plan: each key has one source partition")
    else:
        title = f"spreading plan of {job}, version {made.version} of {iso(made.at_ms)} by {made.made_by}"
        columns = [Column("key"), Column("source partitions"), Column("since version", 1)]
        rows = [[one.key, _numbers(one.partitions), one.since_version] for one in made.keys]
        out.table(table(title, columns, rows))
        if made.reason:
            out.print(f"reason: {made.reason}")
    if state.adoptions:
        columns = [Column("producer"), Column("works with"), Column("said"), Column("state", 1)]
        rows = [
            [one.producer, f"version {one.version}", iso(one.at_ms), _state(one, made, now)]
            for one in sorted(state.adoptions, key=lambda one: one.producer)
        ]
        out.table(table("producers", columns, rows))


def _state(one: Adoption, made: Spread | None, now: int) -> str:
    if now - one.at_ms > SILENT_MS:
        return "silent"
    return "current" if one.version == (made.version if made else 0) else "behind"


def _plan_json(made: Spread) -> dict[str, Any]:
    return {
        "job": made.job,
        "version": made.version,
        "source_partitions": made.source_partitions,
        "keys": [one._asdict() for one in made.keys],
        "made_by": made.made_by,
        "reason": made.reason,
        "at": iso(made.at_ms),
    }


def _document(job: str, made: Spread | None, adoptions: tuple[Adoption, ...], now: int) -> dict[str, Any]:
    return {
        "job": job,
        "plan": _plan_json(made) if made else None,
        "producers": [
            {
                "producer": one.producer,
                "version": one.version,
                "at": iso(one.at_ms),
                "state": _state(one, made, now),
            }
            for one in sorted(adoptions, key=lambda one: one.producer)
        ],
    }
