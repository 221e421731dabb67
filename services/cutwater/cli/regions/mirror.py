"""`mirror`: shows what is copied here by partition, pauses and resumes a mirror, starts a copy again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import mirror_topics
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import BootstrapOption, DataDirOption, JsonOption, WideOption, settings_for
from cutwater.cli.report import iso, out, print_json, print_note, report_errors, table
from cutwater.core.access.actions import PAUSE_MIRROR, RESUME_MIRROR, RESYNC, WITHDRAW_RESYNC
from cutwater.core.errors import UsageError
from cutwater.core.mirror.resync_guard import format_resyncs
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.core.util.printable_text import printable
from cutwater.core.util.text_tables import Column
from cutwater.mirror.resync import resync as resyncing
from cutwater.operations.regions.mirror_control import control_mirror

if TYPE_CHECKING:
    from cutwater.cli.regions.resync import DeletionSummary, ResyncRequest

app = typer.Typer(
    help="The mirror of another region: show what is copied, pause or resume it, start a copy again.\n\n"
    "Examples:  cutwater mirror status job.yaml  ·  cutwater mirror pause job.yaml --origin us",
    no_args_is_help=True,
)
JobFile = Annotated[Path, typer.Argument(help="The job file.")]
OriginOption = Annotated[
    str | None, typer.Option("--origin", help="The region that is copied. Default: CUTWATER_ORIGIN_REGION.")
]


@app.command()
@report_errors
def status(
    job_file: JobFile,
    origin: OriginOption = None,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show each copied partition: the position, the topic here, the newest record and write.

    Exit 2: no mirror has run here. 4: this region's brokers do not answer.

    Examples:  cutwater mirror status job.yaml  ·  cutwater mirror status job.yaml --origin us --json
    """
    settings, job, region = _place(job_file, origin, bootstrap_servers)
    found = mirror_topics.positions(settings.cluster, job)
    steering, copies = found.steering.get(region), found.copies.get(region, {})
    paused = bool(steering and steering.paused)
    rows, renewed = [_plain(job, one) for _, one in sorted(copies.items())], found.renewed(region)
    if as_json:
        print_json({"origin": region, "paused": paused, "begun_anew": sorted(renewed), "partitions": rows})
        return
    if renewed:
        print_note(
            f"a resync of {format_resyncs(renewed)} is in progress. If it was interrupted, run 'cutwater mirror "
            f"resync --withdraw'. If that is refused, and only while {region} is up, run 'cutwater mirror "
            "resync' again"
        )
    columns = (
        *("topic", "partition", Column("copied to", below=True), Column("next", 2), Column("records", 3)),
        *(Column("bytes", 4), Column("newest", 1), Column("written", 5)),
    )
    out.table(table(f"copied from {region}{', paused' if paused else ''}", columns, [_row(one) for one in rows]))


@app.command()
@report_errors
def pause(job_file: JobFile, origin: OriginOption = None, bootstrap_servers: BootstrapOption = None) -> None:
    """Stop copying until `resume`. Milestones that are already copied still arrive.

    Exit 2: no mirror has run here. 4: this region's brokers do not answer.

    Examples:  cutwater mirror pause job.yaml  ·  cutwater mirror pause job.yaml --origin us
    """
    settings, job, region = _place(job_file, origin, bootstrap_servers)
    with audit_action(PAUSE_MIRROR, settings, settings.cluster, job, region):
        control_mirror(settings.cluster, job, region, True, now_ms())
    out.print(f"the mirror of {region} is paused")


@app.command()
@report_errors
def resume(job_file: JobFile, origin: OriginOption = None, bootstrap_servers: BootstrapOption = None) -> None:
    """Let a paused mirror continue at its position.

    Exit 2: no mirror has run here. 4: this region's brokers do not answer.

    Examples:  cutwater mirror resume job.yaml  ·  cutwater mirror resume job.yaml --origin us
    """
    settings, job, region = _place(job_file, origin, bootstrap_servers)
    with audit_action(RESUME_MIRROR, settings, settings.cluster, job, region):
        control_mirror(settings.cluster, job, region, False, now_ms())
    out.print(f"the mirror of {region} continues")


@app.command()
@report_errors
def resync(
    job_file: JobFile,
    topic: Annotated[str, typer.Option(help="The topic by its name in the origin, as in the mirror's log.")],
    origin: OriginOption = None,
    from_snapshot: Annotated[
        bool, typer.Option("--from-snapshot", help="For a changelog: start with a snapshot of the origin's view.")
    ] = False,
    store: Annotated[
        str | None, typer.Option(help="Folder or URL of the origin's snapshots. Default: CUTWATER_SNAPSHOTS.")
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Cancel an interrupted resync that has not deleted anything yet.")
    ] = False,
    delete_only_copy: Annotated[
        bool, typer.Option("--delete-only-copy", help="Proceed if the origin is down or has no such topic.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Delete the copy of a topic, so that the mirror copies it again: from the start of the origin's log, or with
    the rows of a snapshot in place of what that log has lost.

    The running mirror is fenced and exits, as does one that is started meanwhile: start it again afterwards. All
    arrivals are deleted with the copy, so no failover from that origin is possible until milestones arrive again.
    If the command is interrupted, no mirror of that origin works until you run it again. --withdraw cancels it
    without a new copy if nothing of the old copy has been deleted yet.

    If CUTWATER_ORIGIN_REGION and CUTWATER_ORIGIN_BOOTSTRAP_SERVERS name the origin, it is queried first. If it
    does not answer or has no such topic, the copy here may be the only one and is kept, unless --delete-only-copy
    is given. If they do not name it, a warning is printed. A copy is also kept while a generation here needs it,
    and all copies of that origin are kept while a generation claimed from it is not promoted.

    --from-snapshot takes the generation's newest snapshot whose milestone is on the origin's commit stream and
    whose cut the origin's log still holds. If there is none, nothing is deleted. Only milestones after the
    snapshot's arrive.

    Exit 2: nothing of the topic is copied, the origin has no such topic, a generation here needs the copy, no
    snapshot fits, or the deletion was not confirmed. 3: the disk is too small for the snapshot. 4: the brokers of
    a region or the store do not answer. 6: another process claims, promotes, prunes or resyncs meanwhile: use
    --withdraw or, only while the origin is up, run the same command again.

    Examples:  cutwater mirror resync job.yaml --topic flights.events  ·  cutwater mirror resync job.yaml
    --topic flights.events --origin us --yes  ·  cutwater mirror resync job.yaml
    --topic flights.events --withdraw  ·  cutwater mirror resync job.yaml
    --topic flights.changelog.g1-us-00000000 --from-snapshot --store s3://us-backups/cutwater --dry-run
    """
    from cutwater.cli.regions.resync import ResyncRequest, resync_from_snapshot  # imports views and their stores

    settings, job, region = _place(job_file, origin, bootstrap_servers, data_dir)
    asked = ResyncRequest(settings, load_job(job_file), region, topic, store, as_json)
    if withdraw:
        if from_snapshot or store or dry_run or delete_only_copy:
            raise UsageError("--withdraw copies nothing and asks nothing: give it with --topic alone")
        _withdraw(settings, job, region, topic, as_json)
    elif from_snapshot:
        if delete_only_copy:
            raise UsageError("--from-snapshot needs the origin: do not give --delete-only-copy with it")
        resync_from_snapshot(asked, dry_run, lambda goes: _confirm(asked, goes, yes))
    else:
        if store:
            raise UsageError("--store names snapshots: give --from-snapshot too")
        _from_its_start(asked, delete_only_copy, dry_run, yes)


def _from_its_start(asked: ResyncRequest, although_gone: bool, dry_run: bool, yes: bool) -> None:
    """Start a copy of the origin's whole log. `although_gone`: do not query the origin for the topic."""
    from cutwater.cli.regions.resync import DeletionSummary, print_plan

    settings, job, region, topic = asked.settings, asked.job.name, asked.region, asked.topic
    unasked = "--delete-only-copy" if although_gone else _why_not_queried(settings, region)
    origin = None if unasked else settings.origin_cluster
    copy = resyncing.read_copy_state(settings.cluster, job, region, topic)
    resyncing.require_any(copy, region)
    if origin is not None:
        resyncing.require_kept_there(settings.cluster, origin, region, topic)
    goes = DeletionSummary(job, region, resyncing.last_arrival(settings.cluster, job, region), unasked)
    if dry_run:
        print_plan(copy, goes, asked.as_json)
        return
    _confirm(asked, goes, yes)
    told = {"origin": region, "delete only copy": although_gone}
    with audit_action(RESYNC, settings, settings.cluster, job, topic, given=told):
        # With the origin, to query it again: the confirmation may have taken long.
        resyncing.resync(settings.cluster, job, region, topic, now_ms, print_note, origin)
    if asked.as_json:
        print_json({"topic": topic, "snapshot": None})
    else:
        out.print(f"{topic} is copied again when the mirror runs: start it again")


def _why_not_queried(settings: Settings, region: str) -> str:
    """Return why the copied region cannot be queried; empty if the settings name its brokers."""
    if settings.origin_region == region and settings.origin_bootstrap_servers:
        return ""
    return "CUTWATER_ORIGIN_REGION and CUTWATER_ORIGIN_BOOTSTRAP_SERVERS do not name it"


def _withdraw(settings: Settings, job: str, region: str, topic: str, as_json: bool) -> None:
    with audit_action(WITHDRAW_RESYNC, settings, settings.cluster, job, topic, {"origin": region}):
        resyncing.withdraw(settings.cluster, job, region, topic)
    if as_json:
        print_json({"topic": topic, "withdrawn": True})
    else:
        out.print(f"the copy of {topic} is kept, and nothing of it was deleted: start the mirror again")


def _place(
    job_file: Path, origin: str | None, bootstrap: str | None, data_dir: Path | None = None
) -> tuple[Settings, str, str]:
    settings, job = settings_for(data_dir, bootstrap), load_job(job_file).name
    region = origin or settings.origin_region
    if not region:
        raise UsageError("no copied region is named: give --origin, or set CUTWATER_ORIGIN_REGION")
    if not mirror_topics.has_mirror(settings.cluster, job):
        raise UsageError(f"no mirror of {job} has run at {settings.bootstrap_servers}: start one")
    if not mirror_topics.has_mirror(settings.cluster, job, region):
        raise UsageError(
            f"no mirror of region {region} has run at {settings.bootstrap_servers}: 'cutwater regions' lists the "
            "copied regions"
        )
    return settings, job, region


def _confirm(asked: ResyncRequest, goes: DeletionSummary, yes: bool) -> None:
    print_note(str(goes))
    if yes:
        return
    target = mirror_records.target(asked.job.name, asked.topic, asked.region)
    where = asked.settings.bootstrap_servers
    what = f"{target} at {where} with all its records, and all arrivals from {asked.region}"
    if not sys.stdin.isatty() or not typer.confirm(printable(f"Delete {what}?"), err=True):
        raise UsageError(f"this deletes {what}: give --yes; nothing was deleted")


def _plain(job: str, one: Mirrored) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "copied_to": mirror_records.target(job, one.topic, one.origin),
        "next": one.next,
        "records": one.records,
        "bytes": one.size,
        "newest_ms": one.source_ms,
        "written_ms": one.at_ms,
    }


def _row(one: dict[str, Any]) -> list[Any]:
    newest = iso(one["newest_ms"]) if one["records"] else "none"
    same = [one[name] for name in ("topic", "partition", "copied_to", "next", "records", "bytes")]
    return [*same, newest, iso(one["written_ms"])]


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="mirror")
