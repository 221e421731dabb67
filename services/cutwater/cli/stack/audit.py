"""`audit`: prints the actions of operators: who did what, on which object, when, and what came of it."""

from __future__ import annotations

from typing import Annotated

import typer

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.audit_log import read_audit
from cutwater.cli.action_audit import action_json
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.report import err, iso, print_note, print_report, report_errors
from cutwater.cli.stack.history import since_moment
from cutwater.core.access.actions import ACTIONS
from cutwater.core.access.audit_log import BEGUN, AuditRecord, fold_actions, select_actions
from cutwater.core.errors import UsageError
from cutwater.core.util.text_tables import Column, Lines

READ_MAX = 20_000
"""Records that are searched; an action has two."""
NO_OUTCOME = "begun, no outcome"


@report_errors
def audit(
    job_file: JobOption = None,
    who: Annotated[
        str | None, typer.Option(help="Only actions of this one: a token's name, or user@host.")
    ] = None,
    action: Annotated[str | None, typer.Option(help="Only this action, such as 'generation promote'.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only actions after this: 30m, 12h, 7d ago, or ISO 8601 (UTC).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=READ_MAX, help="Number of newest actions to list.")] = 50,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the audit log: who did what to the job, on which object, when, and what came of it.

    Commands and the console write it. An action without an outcome was interrupted, or still runs. 'cutwater down'
    has none if the broker ends with the stack.

    Exit 2: no stack runs, or the log's topic does not exist. 4: no broker answers.

    Examples:  cutwater audit  ·  cutwater audit --since 7d --action rollback
    ·  cutwater audit job.yaml --bootstrap-servers kafka-1:9092 --json
    """
    names = [one.name for one in ACTIONS]
    if action is not None and action not in names:
        raise UsageError(f"'{action}' is not an action; the actions are: {', '.join(names)}")
    since_ms = since_moment(since, now_ms()) if since else None
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    with err.status("reading the audit log"):
        records = read_audit(place.cluster, place.job.name, READ_MAX)
    found = select_actions(fold_actions(records.readable), since_ms, who, action)[-limit:]
    columns: list[str | Column] = ["begun", "who", "action", Column("object", 1), Column("outcome", 2)]
    columns += [Column(name, below=True) for name in ("arguments", "detail", "process")]
    title = f"actions on job {place.job.name}: {len(found)}"
    print_report(title, columns, map(_row, found), [action_json(one) for one in found], as_json)
    if records.problem:
        print_note(records.problem)


def _row(one: AuditRecord) -> tuple[str | Lines, ...]:
    who = f"{one.actor} ({one.role})" if one.role else one.actor
    outcome = NO_OUTCOME if one.outcome == BEGUN else one.outcome
    given = Lines(tuple(f"{each.name} {each.value}" for each in one.arguments))
    process = f"{one.via}, {one.process}"
    return iso(one.begun_ms), who, one.action, one.object, outcome, given, one.detail, process


def register(app: typer.Typer) -> None:
    app.command()(audit)
