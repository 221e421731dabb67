"""`mirror`: what is copied here partition by partition; pause, go on, begin a copy anew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.topics import mirror_topics
from cutwater.cli.options import BootstrapOption, DataDirOption, JsonOption, WideOption, settings_for
from cutwater.cli.regions.resync import Asked, Goes, from_a_snapshot, tell_given_up
from cutwater.cli.report import handled, iso, out, print_json, say, table
from cutwater.core.errors import UsageError
from cutwater.core.mirror.resync_guard import told
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.core.util.printable_text import printable
from cutwater.core.util.text_tables import Column
from cutwater.mirror.resync import resync as resyncing
from cutwater.operations.service_main import now_ms

app = typer.Typer(
    help="The mirror of another region: what is copied, pause it, let it go on, begin a copy anew.\n\n"
    "Examples:  cutwater mirror status job.yaml  ·  cutwater mirror pause job.yaml --origin us",
    no_args_is_help=True,
)
JobFile = Annotated[Path, typer.Argument(help="The job file.")]
OriginOption = Annotated[
    str | None, typer.Option("--origin", help="The region that is copied; default CUTWATER_ORIGIN_REGION.")
]


@app.command()
@handled
def status(
    job_file: JobFile,
    origin: OriginOption = None,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show each partition that is copied: how far, where to, and since when.

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
        say(
            f"the copy of {told(renewed)} is begun anew. Where that was broken off: 'cutwater mirror resync "
            f"--withdraw', and where it refuses, while {region} lives, the same 'cutwater mirror resync' again"
        )
    columns = (
        *("topic", "partition", Column("copied to", below=True), Column("next", 2), Column("records", 3)),
        *(Column("bytes", 4), Column("newest", 1), Column("written", 5)),
    )
    out.table(table(f"copied from {region}{', paused' if paused else ''}", columns, [_row(one) for one in rows]))


@app.command()
@handled
def pause(job_file: JobFile, origin: OriginOption = None, bootstrap_servers: BootstrapOption = None) -> None:
    """Copy nothing more until `resume`; what is copied already still arrives.

    Exit 2: no mirror has run here. 4: this region's brokers do not answer.

    Examples:  cutwater mirror pause job.yaml  ·  cutwater mirror pause job.yaml --origin us
    """
    settings, job, region = _place(job_file, origin, bootstrap_servers)
    resyncing.steer(settings.cluster, job, region, True, now_ms())
    out.print(f"the mirror of {region} pauses")


@app.command()
@handled
def resume(job_file: JobFile, origin: OriginOption = None, bootstrap_servers: BootstrapOption = None) -> None:
    """Let a mirror that was paused go on where it was.

    Exit 2: no mirror has run here. 4: this region's brokers do not answer.

    Examples:  cutwater mirror resume job.yaml  ·  cutwater mirror resume job.yaml --origin us
    """
    settings, job, region = _place(job_file, origin, bootstrap_servers)
    resyncing.steer(settings.cluster, job, region, False, now_ms())
    out.print(f"the mirror of {region} goes on")


@app.command()
@handled
def resync(
    job_file: JobFile,
    topic: Annotated[
        str, typer.Option(help="The topic, by its name in the origin, as the mirror's log names it.")
    ],
    origin: OriginOption = None,
    from_snapshot: Annotated[
        bool, typer.Option("--from-snapshot", help="Of a changelog: begin with a snapshot of the origin's view.")
    ] = False,
    store: Annotated[
        str | None, typer.Option(help="Folder or URL of the origin's snapshots; default CUTWATER_SNAPSHOTS.")
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take back one that was broken off before anything had gone.")
    ] = False,
    delete_only_copy: Annotated[
        bool, typer.Option("--delete-only-copy", help="Although the origin does not answer or has no such topic.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Give up the copy of a topic, so that the mirror begins it anew: from the start of the origin's log, or with
    the rows of a snapshot in place of what that log has lost.

    The running mirror is fenced and leaves, and one that is started meanwhile leaves, too: start it again
    afterwards. All arrivals go with the copy: until milestones arrive anew, no failover from that origin is
    possible. Broken off anywhere, the same command begins again; until it does, no mirror of that origin
    works. --withdraw ends that without a new copy, as long as nothing of the old one has gone.

    The origin is asked first, where CUTWATER_ORIGIN_REGION and CUTWATER_ORIGIN_BOOTSTRAP_SERVERS name it: if it
    does not answer or has no such topic, what is here may be the only copy and stays, unless with
    --delete-only-copy. If they do not name it, that is said. A copy also stays while a generation here stands
    on it, and every one of that origin while one that was claimed from it is not promoted.

    With --from-snapshot the newest snapshot of the generation is taken whose milestone stands on the origin's
    commit stream and whose cut the origin's log still holds; where there is none, nothing is deleted. The
    milestones behind the snapshot's arrive, and it itself does not.

    Exit 2: nothing of the topic is copied, the origin has no such topic, a generation here needs the copy, no
    snapshot fits, or nobody said yes. 3: the disk does not take the snapshot. 4: the brokers of a region or
    the store do not answer. 6: somebody claims, promotes or prunes meanwhile, or begins a copy anew:
    --withdraw, or, only while the origin lives, the same again.

    Examples:  cutwater mirror resync job.yaml --topic flights.events  ·  cutwater mirror resync job.yaml
    --topic flights.events --origin us --yes  ·  cutwater mirror resync job.yaml
    --topic flights.events --withdraw  ·  cutwater mirror resync job.yaml
    --topic flights.changelog.g1-us-00000000 --from-snapshot --store s3://us-backups/cutwater --dry-run
    """
    settings, job, region = _place(job_file, origin, bootstrap_servers, data_dir)
    asked = Asked(settings, load_job(job_file), region, topic, store, as_json)
    if withdraw:
        if from_snapshot or store or dry_run or delete_only_copy:
            raise UsageError("--withdraw copies nothing, and asks nothing: give it with --topic alone")
        _withdraw(settings, job, region, topic, as_json)
    elif from_snapshot:
        if delete_only_copy:
            raise UsageError("--delete-only-copy is for what the origin has not; --from-snapshot reads it there")
        from_a_snapshot(asked, dry_run, lambda goes: _confirm(asked, goes, yes))
    else:
        if store:
            raise UsageError("--store names snapshots: give --from-snapshot too")
        _from_its_start(asked, delete_only_copy, dry_run, yes)


def _from_its_start(asked: Asked, although_gone: bool, dry_run: bool, yes: bool) -> None:
    """A copy of the origin's whole log. `although_gone`: the origin is not asked whether it has one."""
    settings, job, region, topic = asked.settings, asked.job.name, asked.region, asked.topic
    unasked = "--delete-only-copy" if although_gone else _unnamed(settings, region)
    origin = None if unasked else settings.origin_cluster
    copy = resyncing.standing(settings.cluster, job, region, topic)
    resyncing.require_any(copy, region)
    if origin is not None:
        resyncing.require_kept_there(settings.cluster, origin, region, topic)
    goes = Goes(job, region, resyncing.last_arrival(settings.cluster, job, region), unasked)
    if dry_run:
        tell_given_up(copy, goes, asked.as_json)
        return
    _confirm(asked, goes, yes)
    # With the origin, to ask it once more: the answer to the question may have taken long.
    resyncing.resync(settings.cluster, job, region, topic, now_ms, say, origin)
    if asked.as_json:
        print_json({"topic": topic, "snapshot": None})
    else:
        out.print(f"{topic} is copied anew once the mirror runs: start it again")


def _unnamed(settings: Settings, region: str) -> str:
    """Why nobody can ask the region that is copied; empty where the settings name its brokers."""
    if settings.origin_region == region and settings.origin_bootstrap_servers:
        return ""
    return "CUTWATER_ORIGIN_REGION and CUTWATER_ORIGIN_BOOTSTRAP_SERVERS do not name it"


def _withdraw(settings: Settings, job: str, region: str, topic: str, as_json: bool) -> None:
    resyncing.withdraw(settings.cluster, job, region, topic)
    if as_json:
        print_json({"topic": topic, "withdrawn": True})
    else:
        out.print(f"{topic} stays as it is copied, and nothing of it has gone: start the mirror again")


def _place(
    job_file: Path, origin: str | None, bootstrap: str | None, data_dir: Path | None = None
) -> tuple[Settings, str, str]:
    settings, job = settings_for(data_dir, bootstrap), load_job(job_file).name
    region = origin or settings.origin_region
    if not region:
        raise UsageError("which region is copied? give --origin, or set CUTWATER_ORIGIN_REGION")
    if not mirror_topics.has_mirror(settings.cluster, job):
        raise UsageError(f"no mirror of {job} has run at {settings.bootstrap_servers}: start one")
    return settings, job, region


def _confirm(asked: Asked, goes: Goes, yes: bool) -> None:
    """Say what goes, and raise UsageError where nobody says yes to it."""
    say(str(goes))
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
