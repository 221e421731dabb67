"""`demo`: real flights through everything, checked row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutwater.cli.output import handled, out
from cutwater.demo.flights import DAYS_MAX


@handled
def demo(
    days: Annotated[int, typer.Option(min=1, max=DAYS_MAX, help="Days of 2013 to replay.")] = 31,
    data_dir: Annotated[Path, typer.Option(help="Folder of the demonstration; emptied first.")] = Path(
        "build/demo"
    ),
    lateness: Annotated[
        str | None, typer.Option(help="The job's lateness for this run, as in 3h: the shorter, the more is late.")
    ] = None,
    job_file: Annotated[Path, typer.Option(help="The job file.")] = Path("deploy/jobs/flights.yaml"),
) -> int:
    """Replay the flights of 2013, and compare every served row with DuckDB. Exit 1 on any difference.

    What comes too late is not in the rows but on the late list: both together must be the flights.

    Examples:  cutwater demo  ·  cutwater demo --days 365  ·  cutwater demo --lateness 3h
    """
    from cutwater.demo.run import run  # pandas and DuckDB: only this verb needs them

    return run(days, job_file, data_dir, out, lateness)


def register(app: typer.Typer) -> None:
    app.command()(demo)
