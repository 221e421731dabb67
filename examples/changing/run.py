"""A job is changed under load, step by step, and every row is compared at the end.

python -m examples.changing.run [--days 365] [--rate 2000] [--data-dir build/demo-change] [--json]
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from examples.changing.steps import Change
from examples.changing.verbs import VerbInterrupted, Verbs
from examples.two_regions.feeder import Feeder
from examples.two_regions.report import DemoReport

from cutwater.adapters.config.settings import load_settings
from cutwater.cli.report import err, out, print_json, report_errors
from cutwater.demo import flights, target
from cutwater.demo.run import INTERRUPTED
from cutwater.local.machine.disk_space import require_room
from cutwater.local.machine.extras import require
from cutwater.local.processes.supervisor import stop_on_signals

JOB_FILE = Path("deploy/jobs/flights.yaml")
DATA = Path("build/demo-change")


@report_errors
def change(
    days: Annotated[int, typer.Option(min=1, max=365, help="Days of flights to send.")] = 365,
    rate: Annotated[int, typer.Option(min=10, max=5_000, help="Flights per second.")] = 2_000,
    data_dir: Annotated[Path, typer.Option(help="Folder of the stack, emptied first.")] = Path(
        "build/demo-change"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of lines.")] = False,
) -> int:
    """Change a running job under load: re-shard, canary, promotion, preview, rollback, replay.

    Exit 0: every row of view and output is as DuckDB says, and the output has no gap. 1: not.
    """
    require("local", "pyspark", "jgo")
    require_room(data_dir, "the demonstration")
    settings = load_settings().model_copy(update={"data_dir": data_dir})
    console = err if as_json else out
    report = DemoReport(console, str(data_dir))
    events = flights.events(days)
    report.print_line(f"{len(events):,} flights of {days} days, {rate:,} a second")
    with stop_on_signals() as stop, target.own(JOB_FILE, None, settings, console, stop) as stack:
        if stack is None:
            return INTERRUPTED
        with Feeder(stack.job, list(flights.flight_records(events)), rate) as feeder:
            feeder.into("here", stack.cluster)
            try:
                Change(stack, feeder, events, Verbs(data_dir, stop), report, data_dir, stop).play()
            except VerbInterrupted:
                return INTERRUPTED
    if as_json:
        print_json(report.as_json())
    return 0 if report.right else 1


def main() -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(change)
    app()


if __name__ == "__main__":
    main()
