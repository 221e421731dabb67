"""The rehearsal: a stack with a second region that copies it over a link, a plan of faults, and what came of it.

python -m examples.rehearsal.run [--plan PLAN.yaml] [--data-dir build/rehearsal] [--report build/rehearsal.html]
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from examples.rehearsal import HERE, THERE

from cutwater.adapters.config.chaos_plan_file import read_chaos_plan
from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.topics import mirror_topics
from cutwater.cli.report import out, print_note, report_errors, table
from cutwater.cli.stack.chaos import COLUMNS, chaos_notes, reaction_row
from cutwater.core.chaos.report import chaos_page
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.local.chaos.replay import compare_with_replay
from cutwater.local.chaos.run import ChaosResult, OtherRegion, faults_of_stack, run_chaos
from cutwater.local.chaos.target import target_of
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.link import LinkedBroker
from cutwater.local.processes.supervisor import Supervisor
from cutwater.local.region import LinkedOrigin, Region
from cutwater.local.running_file import RunningStack
from cutwater.local.stack.background_stack import Background
from cutwater.local.stack.stack import Stack
from cutwater.local.stack.stack_lifecycle import start_stack
from cutwater.verify.read_rate import ReadRateLimit
from cutwater.verify.regions import Request, Side, compare, newest_common

FOLDER = Path(__file__).parent
DATA = Path("build/rehearsal")
MARK = "rehearsal"
"""The file that marks a folder of the rehearsal, which a later run may empty."""

ALERTS: dict[str, int] = {"watch_silent_ms": 5_000, "watch_driver_silent_ms": 8_000, "watch_stuck_ms": 8_000}
"""An operator would wait longer; a rehearsal has minutes."""


@report_errors
def rehearse(
    plan_file: Annotated[Path, typer.Option("--plan", help="The plan of faults.")] = FOLDER / "plan.yaml",
    data_dir: Annotated[Path, typer.Option(help="Folder of both regions, emptied first.")] = DATA,
    report: Annotated[Path, typer.Option(help="The page with the plot.")] = Path("build/rehearsal.html"),
) -> int:
    """Rehearse faults on a job with a second region, and print what alerted, how it recovered, and what differs.

    Exit 0: each fault was recovered from in time, and all rows are equal. 1: not.
    """
    plan, began = read_chaos_plan(plan_file), time.monotonic()
    _empty(data_dir)
    settings = load_settings().model_copy(update={"data_dir": data_dir / HERE, **ALERTS})
    with _regions(settings, data_dir) as (stack, running, other, region):
        job = stack.job
        make, target = faults_of_stack(plan, running, other), target_of(running)
        result = run_chaos(plan, target, make, job, settings, print_note, other.arrived_ms)
        rows = compare_with_replay(target, job, settings, data_dir / "replay", print_note)
        differing = _differing_rows(job, stack, region)
    region_note = f"the other region: {differing} rows differ"
    notes = [*chaos_notes(result, rows), region_note, f"took {time.monotonic() - began:,.0f} s"]
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(chaos_page(job.name, plan, result.looks, result.reactions, notes), encoding="utf-8")
    _show(result, notes, report)
    right = result.caught_up and rows.equal and not differing
    return 0 if right and all(one.in_time for one in result.reactions) else 1


def _empty(folder: Path) -> None:
    """Empty the folder. Raise UnavailableError if it is not one of the rehearsal."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise UnavailableError(f"{folder} is not empty and not a rehearsal's folder; name another --data-dir")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()


@contextmanager
def _regions(settings: Settings, folder: Path) -> Iterator[tuple[Stack, RunningStack, OtherRegion, Region]]:
    job_file, stop = FOLDER / "orders.yaml", threading.Event()
    linked = LinkedBroker(folder / "broker", find_java(), jars("kafka"))
    extra = {f"CUTWATER_{name.upper()}": str(value) for name, value in ALERTS.items()}
    region = Region(THERE, folder / THERE, job_file, settings, print_note)
    with Supervisor([linked.broker.supervised()]) as broker, linked.link as link:
        broker.start(stop)
        stack = Stack(job_file, settings, print_note, extra_env=extra, broker=linked.broker)
        with start_stack(stack, stop) as running, Background(stack):
            if running is None:
                raise UnavailableError("the stack has not started")
            try:
                region.start_broker(stop)
                region.start([region.mirror(LinkedOrigin(HERE, linked.far))], stop)
                job = stack.job
                yield stack, running, OtherRegion(link, lambda: _checked(region, job)), region
            finally:
                region.stop()


def _checked(region: Region, job: Job) -> int:
    """As `_arrived_ms`, after the region's processes that have ended were started again."""
    region.check()
    return _arrived_ms(region, job)


def _arrived_ms(region: Region, job: Job) -> int:
    """Return when the newest arrival was committed; 0 without one."""
    if not mirror_topics.has_mirror(region.cluster, job.name):
        return 0
    found = mirror_topics.last_arrival(region.cluster, job.name, HERE)
    return found.committed_ms if found else 0


def _differing_rows(job: Job, stack: Stack, region: Region) -> int:
    """Compare the other region at the newest milestone that has arrived there."""
    asked = Request(job, Side(HERE, stack.cluster), Side(region.name, region.cluster))
    found = compare(asked, newest_common(asked), ReadRateLimit())
    return found.differing_rows


def _show(result: ChaosResult, notes: list[str], report: Path) -> None:
    out.table(table("rehearsal", COLUMNS, map(reaction_row, result.reactions)))
    for line in [*notes, f"plot: {report}"]:
        out.print(line)


def main() -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(rehearse)
    app()


if __name__ == "__main__":
    main()
