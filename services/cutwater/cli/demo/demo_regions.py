"""`demo-regions`: two regions on one machine; one dies, and the other goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutwater.cli.options import JsonOption, settings_for
from cutwater.cli.report import err, handled, out, print_json
from cutwater.core.job.job import Job
from cutwater.local.machine.extras import require
from cutwater.verify.read_rate import Pace
from cutwater.verify.regions import Request, Side, compare, newest

if TYPE_CHECKING:
    from cutwater.demo.regions.scenario import Verified
    from cutwater.local.region import Region

DAYS_MIN, DAYS_MAX = 4, 31
PER_SECOND_MAX = 5_000


@handled
def demo_regions(
    days: Annotated[int, typer.Option(min=DAYS_MIN, max=DAYS_MAX, help="Days of flights to send.")] = 7,
    rate: Annotated[int, typer.Option(min=10, max=PER_SECOND_MAX, help="Flights a second.")] = 200,
    data_dir: Annotated[Path, typer.Option(help="Folder of both regions; emptied first.")] = Path(
        "build/demo-regions"
    ),
    job_file: Annotated[Path, typer.Option(help="The job file.")] = Path("deploy/jobs/flights.yaml"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave both regions running afterwards, until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Two regions on one machine: the first one's broker is killed with -9, and the second one goes on.

    Each region has a broker of its own. Flights go into the first, whose job is mirrored into the second. Every
    step is told with its second, and what must hold is checked: exit 0 only if all of it did.

    Exit 1: something that was checked does not hold. Another code: a step failed; the message says which, and
    where the logs are.

    Examples:  cutwater demo-regions  ·  cutwater demo-regions --keep  ·  cutwater demo-regions --json
    """
    require("demo", "pandas", "duckdb")
    from cutwater.demo.regions.report import Telling
    from cutwater.demo.regions.run import Wanted, run  # pandas and DuckDB: only this verb needs them

    console = err if as_json else out
    telling = Telling(console, str(data_dir))
    wanted = Wanted(days, rate, job_file, data_dir, keep)
    code = run(wanted, settings_for(data_dir), console, telling, _verified)
    if as_json:
        print_json(telling.as_json())
    return code


def _verified(job: Job, there: Region, here: Region) -> Verified:
    """What `cutwater verify --region` says in the region `here`."""
    from cutwater.demo.regions.scenario import Verified  # as above

    asked = Request(job, Side(there.name, there.cluster), Side(here.name, here.cluster))
    found = compare(asked, newest(asked), Pace())
    return Verified(found.milestone.token, found.held[1].rows, found.differing_rows, found.equal)


def register(app: typer.Typer) -> None:
    app.command("demo-regions")(demo_regions)
