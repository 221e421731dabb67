"""`cadence`: prints how large and frequent epochs and snapshots are now, and the decisions that made them so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cutwater.adapters.topics.recovery_log import history as read_history
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.report import err, iso, out, print_json, report_errors, table
from cutwater.core.cadence.decisions import Decision, decision_of, in_force
from cutwater.core.job.job import Job, Objectives
from cutwater.core.protocol.recovery_log import Recovery
from cutwater.core.util.text_tables import Column, Lines, number_text

READ_MAX = 10_000
"""Records that are searched."""
UNITS = {
    "events_max": "events an epoch at most",
    "interval_ms": "ms from epoch to epoch",
    "snapshot_every_ms": "ms from snapshot to snapshot",
}


@report_errors
def cadence(
    job_file: JobOption = None,
    limit: Annotated[int, typer.Option(min=1, max=READ_MAX, help="Number of newest decisions to list.")] = 20,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show how large and frequent epochs and snapshots are by the job's objectives, and the newest decisions.

    Each decision has its reason and the figures that it rests on. A job without objectives has no decisions.

    Exit 2: no stack runs, or the recovery trail's topic does not exist. 4: no broker answers.

    Examples:  cutwater cadence  ·  cutwater cadence job.yaml --limit 100
    ·  cutwater cadence job.yaml --bootstrap-servers kafka-1:9092 --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    with err.status("reading the decisions"):
        records = read_history(place.cluster, place.job.name, READ_MAX)
    made = [(one, decision) for one in records if (decision := decision_of(one)) is not None]
    if as_json:
        print_json(_document(place.job, made, limit))
        return
    title = f"cadence of job {place.job.name}, {_wanted(place.job.objectives)}: decisions {len(made)}"
    columns: list[str | Column] = [
        "made",
        "of",
        Column("process", 2),
        Column("in force", 1),
        Column("sets", below=True),
        Column("reason", below=True),
    ]
    columns.append(Column("figures", below=True))
    now = {id(one) for one, _ in in_force(made)}
    out.table(table(title, columns, [_row(one, each, id(one) in now) for one, each in made[-limit:]]))


def _wanted(objectives: Objectives) -> str:
    goals = (("readable_p99", objectives.readable_p99_ms), ("recovery", objectives.recovery_ms))
    found = [f"{name} {value / 1_000:g}s" for name, value in goals if value is not None]
    return f"objectives: {', '.join(found)}" if found else "which has no objectives"


def _document(job: Job, made: Sequence[tuple[Recovery, Decision]], limit: int) -> dict[str, Any]:
    objectives = job.objectives
    return {
        "job": job.name,
        "objectives": {"readable_p99_ms": objectives.readable_p99_ms, "recovery_ms": objectives.recovery_ms},
        "in_force": [decision_json(*one) for one in in_force(made)],
        "decisions": [decision_json(*one) for one in made[-limit:]],
    }


def decision_json(one: Recovery, decision: Decision) -> dict[str, Any]:
    return {
        "made": iso(one.begun_ms),
        "made_ms": one.begun_ms,
        "generation": str(one.generation),
        "process": one.process,
        "attempt": one.attempt,
        "part": decision.part,
        "sets": dict(decision.sets),
        "before": dict(decision.before),
        "reason": decision.reason,
        "figures": dict(decision.inputs),
    }


def _row(one: Recovery, decision: Decision, is_now: bool) -> tuple[str | Lines, ...]:
    sets = Lines(tuple(f"{number_text(value)} {UNITS[name]}" for name, value in decision.sets.items()))
    figures = Lines(tuple(f"{name} {value:g}" for name, value in decision.inputs.items()))
    return iso(one.begun_ms), decision.part, one.process, "yes" if is_now else "", sets, decision.reason, figures


def register(app: typer.Typer) -> None:
    app.command()(cadence)
