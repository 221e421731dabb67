"""`demo-regions`: runs two regions on one machine, of which the second continues when the first fails."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutwater.cli.options import JsonOption, settings_for
from cutwater.cli.report import err, out, print_json, report_errors
from cutwater.core.job.job import Job
from cutwater.local.machine.extras import require, require_checkout
from cutwater.verify.read_rate import ReadRateLimit
from cutwater.verify.regions import Request, Side, compare, newest_common

if TYPE_CHECKING:
    from examples.two_regions.scenario import Verified

    from cutwater.local.region import Region

DAYS_MIN, DAYS_MAX = 4, 31
PER_SECOND_MAX = 5_000


@report_errors
def demo_regions(
    days: Annotated[int, typer.Option(min=DAYS_MIN, max=DAYS_MAX, help="Days of flights to produce.")] = 7,
    rate: Annotated[int, typer.Option(min=10, max=PER_SECOND_MAX, help="Flights per second.")] = 200,
    data_dir: Annotated[Path, typer.Option(help="Folder of both regions, emptied first.")] = Path(
        "build/demo-regions"
    ),
    job_file: Annotated[Path, typer.Option(help="The job file.")] = Path("deploy/jobs/flights.yaml"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave both regions running afterwards, until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Run two regions on one machine: the first region's broker is killed, and the second one continues.

    Each region has its own broker. Flights are produced to the first region, whose job is mirrored to the second.
    The broker is killed with SIGKILL. Each step is printed with its time, and the results are checked.

    Exit 0: all checks pass. 1: a check fails. Other codes: a step failed; the message names the step and the logs.

    Examples:  cutwater demo-regions  ·  cutwater demo-regions --keep  ·  cutwater demo-regions --json
    """
    require("demo", "pandas", "duckdb")
    require_checkout("two_regions")
    from examples.two_regions.report import DemoReport
    from examples.two_regions.run import Wanted, run  # pandas and DuckDB: only this verb needs them

    console = err if as_json else out
    telling = DemoReport(console, str(data_dir))
    wanted = Wanted(days, rate, job_file, data_dir, keep)
    code = run(wanted, settings_for(data_dir), console, telling, _verified)
    if as_json:
        print_json(telling.as_json())
    return code


def _verified(job: Job, there: Region, here: Region) -> Verified:
    from examples.two_regions.scenario import Verified  # as above

    asked = Request(job, Side(there.name, there.cluster), Side(here.name, here.cluster))
    found = compare(asked, newest_common(asked), ReadRateLimit())
    return Verified(found.milestone.token, found.held[1].rows, found.differing_rows, found.equal)


def register(app: typer.Typer) -> None:
    app.command("demo-regions")(demo_regions)
