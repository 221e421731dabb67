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
    job_file: Annotated[Path, typer.Option(help="The job file.")] = Path("deploy/jobs/flights.yaml"),
) -> int:
    """Replay the flights of 2013, and compare every served row with DuckDB. Exit 1 on any difference.

    Examples:  cutwater demo  ·  cutwater demo --days 365
    """
    from cutwater.demo.run import run  # pandas and DuckDB: only this verb needs them

    return run(days, job_file, data_dir, out)


def register(app: typer.Typer) -> None:
    app.command()(demo)
