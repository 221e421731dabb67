"""`chaos`: faults by a plan, on a running stack, and what the job did about them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.config.chaos_plan_file import read_chaos_plan
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import DataDirOption, JobNameOption, JsonOption, WideOption, settings_for
from cutwater.cli.report import err, out, print_json, print_note, report_errors, table
from cutwater.cli.result_file import require_place, write_result
from cutwater.core.access.actions import CHAOS
from cutwater.core.chaos.plan import ChaosPlan
from cutwater.core.chaos.recovery import Reaction
from cutwater.core.chaos.report import chaos_page
from cutwater.core.errors import UsageError
from cutwater.core.util.text_tables import number_text
from cutwater.local import running_file
from cutwater.local.chaos.compose_project import ComposeProject
from cutwater.local.chaos.replay import ReplayComparison, compare_with_replay
from cutwater.local.chaos.run import ChaosResult, faults_of_stack, run_chaos
from cutwater.local.chaos.target import ChaosTarget, Make, target_of
from cutwater.operations.service_main import interrupt_on_signals

COLUMNS = ("at", "fault", "alert", "after", "largest lag", "recovered after")


@report_errors
def chaos(
    plan_file: Annotated[Path, typer.Argument(help="YAML with the plan: duration, faults by time, load.")],
    replay: Annotated[
        bool,
        typer.Option("--replay/--no-replay", help="Compare every row with a job that counts the events again."),
    ] = True,
    compose: Annotated[
        str | None,
        typer.Option(help="Project of docker-compose.yml to break, in place of a stack of 'cutwater up'."),
    ] = None,
    job_file: Annotated[Path | None, typer.Option(help="With --compose: the job file of the project.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page of HTML with the plot to this file.")] = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Make faults on the running stack by a plan, and check lag, recovery and every row.

    Processes are killed, stopped, slowed, find the disk full or slow, or their clock moved, while the plan's load
    runs. Containers of a compose project are killed, stopped, cut off or restarted. Then all events are counted
    once more by a job of another name, without faults, and its rows are compared; its topics are removed.
    docs/CHAOS.md has the form of a plan.

    Exit 0: each fault was recovered from in time, and all rows are equal. 1: not. 3: this machine lacks what a
    fault needs (strace for a slow disk, docker for containers).

    Examples:  cutwater chaos plan.yaml --report chaos.html  ·  cutwater chaos plan.yaml --no-replay --json
    ·  cutwater chaos plan.yaml --compose cutwater --job-file deploy/jobs/flights.yaml
    """
    if report:
        require_place(report, "--report")
    plan, settings = read_chaos_plan(plan_file), settings_for(data_dir)
    target, make = _broken(plan, settings, job_name, compose, job_file)
    job = load_job(target.job_file)
    if job.attached:
        raise UsageError(
            f"job {job.name} is attached to a query of your own: chaos knows only Cutwater's processes"
        )
    interrupt_on_signals()  # no fault may stay, and no topic of the replay
    with audit_action(CHAOS, settings, target.cluster, job.name, plan_file.name) as action:
        result = run_chaos(plan, target, make, job, settings, print_note)
        action.record_result("; ".join(str(one.fault) for one in result.reactions))
    rows = None
    if replay and result.caught_up:
        with err.status("counting all events once more"):
            rows = compare_with_replay(target, job, settings, settings.data_dir / "chaos", print_note)
    notes = list(chaos_notes(result, rows))
    _show(plan, result, rows, notes, as_json)
    if report:
        write_result(report, chaos_page(job.name, plan, result.looks, result.reactions, notes))
    sound = result.caught_up and all(one.in_time for one in result.reactions) and (rows is None or rows.equal)
    return 0 if sound else 1


def _broken(
    plan: ChaosPlan, settings: Settings, job_name: str | None, compose: str | None, job_file: Path | None
) -> tuple[ChaosTarget, Make]:
    """Return the job that is broken, and what breaks it."""
    if bool(compose) != bool(job_file):
        raise UsageError("--compose and --job-file belong together: give both, or neither for a stack of 'up'")
    if compose and job_file:
        project = ComposeProject(compose)
        return project.target(settings.cluster, job_file), project.faults(plan)
    stack = running_file.require(settings.data_dir, job_name)
    return target_of(stack), faults_of_stack(plan, stack)


def chaos_notes(result: ChaosResult, rows: ReplayComparison | None) -> list[str]:
    load = (
        f"{number_text(result.produced)} events of the load were acknowledged" if result.plan.load else "no load"
    )
    read = "every event is in a milestone" if result.caught_up else "the job has NOT read every event in time"
    if rows is None:
        return [load, read, "rows were not compared"]
    return [
        load,
        read,
        f"{number_text(rows.rows)} rows beside a replay: {number_text(rows.missing)} missing, "
        f"{number_text(rows.unexpected)} unexpected",
    ]


def _show(
    plan: ChaosPlan, result: ChaosResult, rows: ReplayComparison | None, notes: list[str], as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "seconds": plan.seconds,
                "produced": result.produced,
                "caught_up": result.caught_up,
                "rows": rows._asdict() if rows else None,
                "faults": [_plain(number, one, result) for number, one in enumerate(result.reactions)],
            }
        )
        return
    out.table(table("faults", COLUMNS, map(reaction_row, result.reactions)))
    for line in notes:
        out.print(line)


def _plain(number: int, one: Reaction, result: ChaosResult) -> dict[str, Any]:
    return {
        "fault": one.fault.kind,
        "process": one.fault.process,
        "at_s": one.fault.at_s,
        "for_s": one.fault.for_s,
        "by_s": one.fault.by_s,
        "processes": result.processes[number],
        "alert": one.alert or None,
        "alerted_s": one.alerted_s and round(one.alerted_s, 3),
        "lag_max_s": round(one.lag_max_s, 3),
        "recovered_s": None if one.recovered_s is None else round(one.recovered_s, 3),
        "in_time": one.in_time,
    }


def reaction_row(one: Reaction) -> tuple[str, ...]:
    """Return a fault's row below COLUMNS."""
    return (
        f"{one.fault.at_s:g} s",
        str(one.fault),
        one.alert or "none",
        "" if one.alerted_s is None else f"{one.alerted_s:.1f} s",
        f"{one.lag_max_s:.1f} s",
        "not before the end" if one.recovered_s is None else f"{one.recovered_s:.1f} s",
    )


def register(app: typer.Typer) -> None:
    app.command()(chaos)
