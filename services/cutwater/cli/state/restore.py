"""`restore`: builds a view's folder at one milestone, from a snapshot and the changelog."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.config.held_part import HeldPart, holding_of, selected_part
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.fetch.native_rows import usable
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.cli.options import BootstrapOption, DataDirOption, JsonOption, WideOption, settings_beside
from cutwater.cli.report import err, iso, out, print_json, print_note, report_errors, table
from cutwater.core.job.job import Job
from cutwater.core.state.bulk_load import Done
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.point_in_time_restore import RestorableSnapshot, RestorePlan, Target, plan
from cutwater.core.state.snapshot_manifest import Manifest
from cutwater.operations.service_main import keep_private
from cutwater.views.bulk.loader import workers_by_default
from cutwater.views.follow.applier import Applied
from cutwater.views.snapshots.local_tier import Checkpoints
from cutwater.views.snapshots.point_in_time import Rebuild, read_sources
from cutwater.views.snapshots.repositories import repository_of
from cutwater.views.snapshots.restore import Restorer, Tier, stream_check
from cutwater.views.store.folders import folder_of


@report_errors
def restore(
    job_file: Annotated[Path, typer.Argument(help="The job file.")],
    to: Annotated[
        str, typer.Option(help="latest, a token, or a time (the newest milestone committed by then).")
    ] = "latest",
    partitions: Annotated[
        str | None,
        typer.Option(help="Only these changelog partitions, such as 0,2. Default: CUTWATER_PEER's."),
    ] = None,
    keys: Annotated[
        str, typer.Option(help='Only these keys, such as a,b. If keys contain commas, a JSON list: ["a,b", "c"].')
    ] = "",
    prefix: Annotated[str, typer.Option(help="Only keys with one of these prefixes, in the form of --keys.")] = "",
    since: Annotated[
        str, typer.Option(help="Only windows that end after this time: ISO 8601 or ms since 1970.")
    ] = "",
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Number of processes. Default: CUTWATER_RESTORE_WORKERS."),
    ] = None,
    from_snapshots: Annotated[
        bool,
        typer.Option(
            "--snapshots/--no-snapshots", help="Start from a snapshot of CUTWATER_SNAPSHOTS, if there is one."
        ),
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be read, and read nothing.")
    ] = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Build a view at one milestone in a folder, from a snapshot and the changelog.

    Use it to start a rehydrator with a warm view, or to inspect an older milestone. No rehydrator may serve from
    the folder meanwhile. The folder is DATA_DIR/views/JOB/GENERATION. If the command is interrupted, run it again
    and it continues. Without --bootstrap-servers the brokers of a stack that runs the job are read, even if the
    folder is elsewhere. A milestone that compaction has overtaken and no snapshot holds is refused, with a list of
    the available ones.

    With --keys, --prefix or --since the folder holds only that part, for a rehydrator with the same selection
    (CUTWATER_SELECT_KEYS and so on). All rows of the partitions are read and proved, and no snapshot is used. With
    --keys alone only the partitions of these keys are read.

    Examples:  cutwater restore job.yaml --dry-run  ·  cutwater restore job.yaml --data-dir /var/lib/cutwater
    ·  cutwater restore job.yaml --to g1-local-00000000:42 --data-dir look
    ·  cutwater restore job.yaml --to 2026-01-31T08:00:00Z --partitions 0,2 --json
    ·  cutwater restore job.yaml --prefix EW --since 2026-01-31T00:00:00Z --data-dir look
    """
    keep_private()
    target, job = Target.of(to), load_job(job_file)
    settings = settings_beside(job.name, data_dir, bootstrap_servers)
    if target.token:
        settings = settings.model_copy(update={"generation": target.token.generation})
    job, settings = working_for(job, settings)
    asked = (partitions or "", keys, prefix, since)
    holding = selected_part(job, *asked) if any(asked) else holding_of(settings, job)[0]
    wanted, selection = holding.partitions, holding.selection
    crew = workers or settings.restore_workers or workers_by_default()
    folder = folder_of(settings.data_dir, job.name, settings.generation)
    tiers = _tiers(settings, job, wanted, folder) if from_snapshots and selection is None else ()
    with err.status("reading the commit stream"):
        there = read_sources(settings.cluster, job, settings.generation, wanted, now_ms(), tiers, _ConsoleLog())
    if dry_run and not folder.exists():
        made = plan(target, there)
        _print_plan(made, holding, crew, folder, None, _window_bound(job, made.lower_ms), as_json)
        return
    loading = _Loading()
    with closing(
        Rebuild(
            settings.cluster,
            job,
            settings.generation,
            folder,
            wanted,
            now_ms,
            loading,
            crew,
            restorer=_restorer(settings, job, wanted, tiers) if tiers else None,
            selection=selection,
            native=settings.native and usable(),
        )
    ) as rebuild:
        made = plan(target, there, rebuild.applied)
        done = None
        if not dry_run and not rebuild.shows(made.to.milestone):
            with err.task("restoring", "records", made.records_max) as loading.progress:
                done = rebuild.run(made)
        lower_ms = rebuild.lower_ms if done or made.since else made.lower_ms
        _print_plan(made, holding, crew, folder, done, _window_bound(job, lower_ms), as_json)


def _tiers(settings: Settings, job: Job, partitions: Partitions | None, folder: Path) -> tuple[Tier, ...]:
    """Return the places that may hold snapshots: beside the folder, and the store of the settings."""
    near = Checkpoints(folder)
    return (near, repository_of(settings, job, partitions)) if settings.snapshots else (near,)


def _restorer(settings: Settings, job: Job, partitions: Partitions | None, tiers: tuple[Tier, ...]) -> Restorer:
    said = _ConsoleLog()
    on_stream = stream_check(settings.cluster, job)
    return Restorer(job, settings.generation, partitions, tiers, on_stream, said, said)


class _ConsoleLog:
    """A logger that prints to standard error, and metrics that count nothing."""

    def restored(self, manifest: Manifest, seconds: float) -> None: ...

    def unusable(self, reason: str) -> None: ...

    def record_answer(self, well: bool) -> None: ...

    def info(self, what: str, **about: Any) -> None:
        print_note(f"{what}: {', '.join(f'{name} {value}' for name, value in about.items())}")

    warning = error = info


class _Loading:
    """Passes on how much is loaded, once it is known how much there is."""

    def __init__(self) -> None:
        self.progress: Callable[[int], None] | None = None

    def loaded(self, done: Done, _records_max: int) -> None:
        if self.progress is not None:
            self.progress(done.records)


def _print_plan(
    made: RestorePlan,
    holding: HeldPart,
    workers: int,
    folder: Path,
    done: Applied | None,
    lower_ms: int | None,
    as_json: bool,
) -> None:
    """Print the plan or the result. `lower_ms`: windows that end at or below it are evicted from the view."""
    milestone = made.to.milestone
    told: dict[str, Any] = {
        "token": str(milestone.token),
        "committed": iso(milestone.committed_ms),
        "watermark": iso(milestone.watermark_ms),
        "folder": str(folder),
        "from": str(made.since.token) if made.since else None,
        "snapshot": _snapshot(made.snapshot) if made.snapshot else None,
        "snapshot_passed_over": _snapshot(made.passed_over) if made.passed_over else None,
        "lower_bound": None if lower_ms is None else iso(lower_ms),
        "partitions": [one._asdict() for one in made.slices],
        "selection": holding.selection.as_object() if holding.selection else None,
        "records_max": made.records_max,
        "seconds_expected": round(made.seconds(workers), 1),
        "restored": _restored(done) if done else None,
    }
    if as_json:
        print_json(told)
        return
    rows = ((one.partition, one.first, one.end, one.records_max) for one in made.slices)
    out.table(table(f"{milestone.token} in {folder}", ["partition", "from", "to", "records at most"], rows))
    if holding.selection:
        print_note(f"only these rows are kept: {holding.selection}")
    if made.snapshot:
        one = made.snapshot
        print_note(f"snapshot {one.milestone.token}: {one.files} files, {one.bytes / 1e6:,.1f} MB")
    if made.passed_over:
        one = made.passed_over
        print_note(
            f"snapshot {one.milestone.token} is not used: windows that end by {_lower(one)} were evicted from it"
        )
    if lower_ms is not None:
        print_note(f"windows that end by {iso(lower_ms)} are missing: they were evicted from the view (max_bytes)")
    if done:
        print_note(f"restored: {done.records:,} records, {done.bytes / 1e6:,.0f} MB in {done.seconds:.1f} s")
    elif made.since and made.since == milestone:
        print_note("the folder already holds this milestone")
    else:
        print_note(f"to read: {made.records_max:,} records at most, about {told['seconds_expected']} s")


def _restored(done: Applied) -> dict[str, Any]:
    return {"records": done.records, "bytes": done.bytes, "seconds": done.seconds}


def _snapshot(one: RestorableSnapshot) -> dict[str, Any]:
    return {
        "token": str(one.milestone.token),
        "files": one.files,
        "bytes": one.bytes,
        "lower_bound": _lower(one),
    }


def _window_bound(job: Job, lower_ms: int | None) -> int | None:
    """Return the bound of windows from that of rows."""
    return None if lower_ms is None else job.shown_above_ms(lower_ms)


def _lower(one: RestorableSnapshot) -> str | None:
    return None if one.lower_ms is None else iso(one.lower_ms)


def register(app: typer.Typer) -> None:
    app.command()(restore)
