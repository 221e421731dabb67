"""`demo`: replays real flights through all services, and checks every row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutwater.cli.options import BootstrapOption, settings_for
from cutwater.cli.report import out, report_errors
from cutwater.core.errors import UsageError
from cutwater.demo import DAYS_MAX
from cutwater.local.machine.extras import require


@report_errors
def demo(
    days: Annotated[int, typer.Option(min=1, max=DAYS_MAX, help="Days of 2013 to replay.")] = 31,
    data_dir: Annotated[Path, typer.Option(help="Folder of the demonstration, emptied first.")] = Path(
        "build/demo"
    ),
    lateness: Annotated[
        str | None,
        typer.Option(help="The job's lateness for this run, such as 3h. A shorter one makes more events late."),
    ] = None,
    job_file: Annotated[Path, typer.Option(help="The job file.")] = Path("deploy/jobs/flights.yaml"),
    view: Annotated[
        list[str] | None,
        typer.Option(help="URL of a running rehydrator's API, to use its stack. Repeatable."),
    ] = None,
    bootstrap_servers: BootstrapOption = None,
) -> int:
    """Replay the flights of 2013, and compare every served row with DuckDB. Exit 1 on any difference.

    Events that arrive too late are not in the rows but on the late list. Both together must equal the flights.

    By default the command starts a stack and stops it. With --view it uses a running one, for example in
    containers, that has not read any event yet.

    Examples:  cutwater demo  ·  cutwater demo --days 365  ·  cutwater demo --lateness 3h
    ·  cutwater demo --view http://127.0.0.1:8321 --bootstrap-servers 127.0.0.1:9094
    """
    require("demo", "pandas", "duckdb", "matplotlib")
    from cutwater.demo import target  # pandas and DuckDB: only this verb needs them
    from cutwater.demo.run import run

    settings = settings_for(data_dir, bootstrap_servers)
    if bootstrap_servers is not None and not view:
        raise UsageError("--bootstrap-servers is for a running stack: name its views too, with --view")
    if not view:
        return run(days, out, lambda stop: target.own(job_file, lateness, settings, out, stop), data_dir)
    if lateness is not None:
        raise UsageError("--lateness needs a stack that the command starts: with --view, the job file sets it")
    return run(days, out, lambda _stop: target.attach(job_file, settings, view), data_dir)


def register(app: typer.Typer) -> None:
    app.command()(demo)
