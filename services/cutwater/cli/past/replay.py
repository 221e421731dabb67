"""`replay`: the events between two milestones counted once more in a sandbox, and every row compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.job_files.models import parse_size
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.past.difference_report import LIMIT, LIMIT_MAX
from cutwater.cli.past.replay_report import print_replay, replay_json
from cutwater.cli.report import err, print_json, print_note, report_errors
from cutwater.core.errors import UsageError
from cutwater.core.past.milestone_point import LATEST, MilestonePoint
from cutwater.operations.service_main import interrupt_on_signals, keep_private
from cutwater.past.diff import RECORDS_MAX
from cutwater.replay.run import ReplayRequest, run_replay

TOLERANCE = 1e-9
_FORMS = "latest, a sequence number, a token, or a time"


@report_errors
def replay(
    running_file: JobOption = None,
    from_: Annotated[
        str | None, typer.Option("--from", help=f"Milestone to start after: {_FORMS}. Default: the first event.")
    ] = None,
    to: Annotated[str, typer.Option(help=f"Milestone to end with: {_FORMS}.")] = LATEST,
    job_file: Annotated[
        Path | None, typer.Option(help="A job file to count with, instead of the running job's.")
    ] = None,
    rate: Annotated[
        str, typer.Option(help="Most bytes of events to read per second, such as 5MB; 0B for no limit.")
    ] = "50MB",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for live.parquet, replayed.parquet and differences.parquet. Needs pyarrow."),
    ] = None,
    count_late: Annotated[
        bool, typer.Option(help="Count the events that the job has left out as late, too.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, max=LIMIT_MAX, help="Differing windows to show.")] = LIMIT,
    tolerance: Annotated[
        float, typer.Option(min=0, max=1, help="Relative difference up to which floating-point numbers are equal.")
    ] = TOLERANCE,
    records_max: Annotated[
        int, typer.Option(min=1, max=10**12, help="Limit of changelog records to read for one milestone.")
    ] = RECORDS_MAX,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Count the events between two milestones once more in a sandbox, and compare every row with the job's.

    The sandbox has a broker, topics, a checkpoint and a folder of its own, below the data folder. All are removed
    at the end. The job's brokers are only read: the events, at most --rate, and the states at the milestones, as
    'cutwater diff' reads them. With --from, each row of that milestone is merged with the replayed one.

    What the job has left out as late is left out here too: it depends on when an event was read. With --count-late
    it is counted, and rows that differ by it have the reason 'late'. Values of sketches may differ within their
    error.

    With --job-file the measures that both job files have are compared, and the others are listed.

    Exit 0: all rows are equal. 1: some are not. 2: the source's retention has deleted some of the events, or the
    milestones cannot be replayed or restored. 3: this machine cannot run a sandbox. 4: brokers do not answer.

    Examples:  cutwater replay  ·  cutwater replay --from 42 --to latest --out replayed
    ·  cutwater replay --from 2026-01-31T08:00:00Z --job-file new.yaml --limit 100
    ·  cutwater replay job.yaml --bootstrap-servers kafka-1:9092 --rate 5MB --json
    """
    keep_private()
    before = MilestonePoint.of(from_) if from_ else None
    after, bytes_per_s = MilestonePoint.of(to), _rate(rate)
    place = find_job(running_file, bootstrap_servers, data_dir, job_name)
    interrupt_on_signals()
    with err.task("replaying", "events") as progress:
        found = run_replay(
            ReplayRequest(
                cluster=place.cluster,
                settings=place.settings,
                job=place.job,
                by=load_job(job_file) if job_file else place.job,
                by_file=job_file or place.job_file,
                another=job_file is not None,
                before=before,
                after=after,
                snapshots=place.stack.snapshots if place.stack else place.settings.snapshots,
                bytes_per_s=bytes_per_s,
                count_late=count_late,
                limit=limit,
                tolerance=tolerance,
                records_max=records_max,
                out=out,
                say=print_note,
            ),
            lambda doing, done, total: progress(done, doing, total),
        )
    if as_json:
        print_json(replay_json(found))
    else:
        print_replay(found)
    return 0 if found.is_equal else 1


def _rate(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"--rate: {error}") from None


def register(app: typer.Typer) -> None:
    app.command()(replay)
