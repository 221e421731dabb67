"""`history`: prints what each start of a service found and decided, and how long its steps took."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from cutwater.adapters.runtime.clock import now_ms
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
from cutwater.cli.report import err, iso, print_report, report_errors
from cutwater.core.errors import UsageError
from cutwater.core.protocol.recovery_log import Recovery, select_starts
from cutwater.core.util.text_tables import Column, Lines, number_text
from cutwater.core.util.timestamps import iso_ms

SERVICES = ("driver", "commit-signal", "rehydrator", "publisher", "mirror")
READ_MAX = 10_000
"""Records that are searched."""
_AGO = re.compile(r"([0-9]{1,9})(s|m|h|d)")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@report_errors
def history(
    job_file: JobOption = None,
    service: Annotated[str | None, typer.Option(help=f"Only this service: {', '.join(SERVICES)}.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only starts after this: 30m, 12h, 7d ago, or ISO 8601 (UTC).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=READ_MAX, help="Number of newest starts to list.")] = 50,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the recovery trail: each start's findings, decision and steps with their durations.

    Exit 2: no stack runs, or the trail's topic does not exist. 4: no broker answers.

    Examples:  cutwater history  ·  cutwater history --service driver --since 12h
    ·  cutwater history job.yaml --bootstrap-servers kafka-1:9092 --json
    """
    if service is not None and service not in SERVICES:
        raise UsageError(f"'{service}' is not a service; the services are: {', '.join(SERVICES)}")
    since_ms = since_moment(since, now_ms()) if since else None
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    with err.status("reading the recovery trail"):
        found = select_starts(read_history(place.cluster, place.job.name, READ_MAX), service, since_ms)[-limit:]
    columns: list[str | Column] = ["begun", "service", Column("process", 2), Column("outcome", 1)]
    columns += [Column(name, below=True) for name in ("found", "decided", "steps")]
    title = f"starts of job {place.job.name}: {len(found)}"
    print_report(title, columns, map(_row, found), [recovery_json(one) for one in found], as_json)


def since_moment(text: str, now: int) -> int:
    """Return the time of --since, in ms. Raises UsageError."""
    if ago := _AGO.fullmatch(text):
        return now - int(ago[1]) * _UNIT_MS[ago[2]]
    try:
        return iso_ms(text)
    except ValueError:
        raise UsageError(f"--since {text!r} is not a time: write 12h, or 2026-01-02T03:00:00Z") from None


def recovery_json(one: Recovery) -> dict[str, Any]:
    return {
        "begun": iso(one.begun_ms),
        "begun_ms": one.begun_ms,
        "job": one.job,
        "generation": str(one.generation),
        "service": one.service,
        "process": one.process,
        "attempt": one.attempt,
        "outcome": one.outcome,
        "found": {fact.name: fact.value for fact in one.found},
        "decision": one.decision,
        "steps": [step._asdict() for step in one.steps],
        "took_ms": one.took_ms,
    }


def _row(one: Recovery) -> tuple[str | Lines, ...]:
    found = Lines(tuple(f"{fact.name} {fact.value}" for fact in one.found))
    steps = Lines(tuple(f"{number_text(step.took_ms)} ms {step.name}" for step in one.steps))
    return iso(one.begun_ms), one.service, one.process, one.outcome, found, one.decision, steps


def register(app: typer.Typer) -> None:
    app.command()(history)
