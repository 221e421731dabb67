"""`diff`: the windows that differ between two milestones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.config.held_part import HeldPart, selected_part
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobNameOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.past.difference_report import (
    LIMIT,
    LIMIT_MAX,
    compared,
    difference_json,
    exit_code_of,
    print_difference,
    request_of,
)
from cutwater.cli.report import print_json, report_errors
from cutwater.core.job.job import Job
from cutwater.core.past.milestone_point import MilestonePoint
from cutwater.operations.service_main import keep_private
from cutwater.past.diff import RECORDS_MAX

JobFileOption = Annotated[
    Path | None,
    typer.Option(
        "--job-file", help="The job file, needed with --bootstrap-servers. Default: the running stack's."
    ),
]
_FORMS = "latest, a sequence number, a token, a generation (its newest milestone), or a time"


@report_errors
def diff(
    before: Annotated[str, typer.Argument(help=f"One milestone: {_FORMS}.")],
    after: Annotated[str, typer.Argument(help="The other milestone, in the same forms.")],
    job_file: JobFileOption = None,
    other_job_file: Annotated[
        Path | None,
        typer.Option(help="The job file of the generation whose measures are others. Shared ones are compared."),
    ] = None,
    keys: Annotated[
        str, typer.Option(help='Only these keys, such as a,b. If keys contain commas, a JSON list: ["a,b", "c"].')
    ] = "",
    prefix: Annotated[str, typer.Option(help="Only keys with one of these prefixes, in the form of --keys.")] = "",
    since: Annotated[
        str, typer.Option(help="Only windows that end after this time: ISO 8601 or ms since 1970.")
    ] = "",
    limit: Annotated[int, typer.Option(min=0, max=LIMIT_MAX, help="Differing windows to show.")] = LIMIT,
    tolerance: Annotated[
        float, typer.Option(min=0, max=1, help="Relative difference up to which floating-point numbers are equal.")
    ] = 0.0,
    records_max: Annotated[
        int, typer.Option(min=1, max=10**12, help="Limit of changelog records to read for one milestone.")
    ] = RECORDS_MAX,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Show the windows that differ between two milestones, with each measure before and after.

    Nothing is changed. Both states are built in a folder below the data folder, which is deleted at the end, from
    a snapshot of CUTWATER_SNAPSHOTS and the changelog, as 'cutwater restore' does. So memory does not grow with
    the state, and a milestone that cannot be restored cannot be compared. With --keys alone only the partitions
    of these keys are read.

    The milestones may be of different generations. A candidate's newest milestone is named by its generation. If
    the two generations have different measures, name both job files: the measures that both have are compared.

    Windows that one milestone cannot hold any more, as they are below its horizon, are not compared.

    Exit 0: no window differs. 1: some do. 2: a milestone does not exist, or its state is not kept any more. 4:
    brokers do not answer, or compaction has overtaken the read.

    Examples:  cutwater diff 42 latest  ·  cutwater diff 2026-01-31T08:00:00Z 2026-01-31T09:00:00Z --keys JFK,EWR
    ·  cutwater diff latest g2-local-5f0c21aa --limit 100 --json
    ·  cutwater diff 42 57 --job-file job.yaml --bootstrap-servers kafka-1:9092
    """
    keep_private()
    points = MilestonePoint.of(before), MilestonePoint.of(after)
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    others = (load_job(other_job_file),) if other_job_file else ()

    def part(job: Job) -> HeldPart:
        return selected_part(job, "", keys, prefix, since) if keys or prefix or since else HeldPart()

    asked = request_of(
        place, *points, others, part=part, limit=limit, tolerance=tolerance, records_max=records_max
    )
    found = compared(asked)
    if as_json:
        print_json(difference_json(found))
    else:
        print_difference(found)
    return exit_code_of(found)


def register(app: typer.Typer) -> None:
    app.command()(diff)
