"""`rollback`: go back to a milestone, or show first what would change."""

from __future__ import annotations

from typing import Annotated

import typer

from cutwater.cli.action_audit import audit_action
from cutwater.cli.generations.claim import claim, claims_of
from cutwater.cli.generations.generation import (
    PROMOTE_S,
    AnotherOption,
    DryRunOption,
    PartitionsOption,
    ReasonOption,
    WaitOption,
)
from cutwater.cli.generations.promotion_wait import await_promotion
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobContext,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.report import report_errors
from cutwater.core.access.actions import ROLLBACK
from cutwater.core.errors import UsageError
from cutwater.core.past.milestone_point import MilestonePoint
from cutwater.operations.generations.requests import GenerationRequest


@report_errors
def rollback(
    to: Annotated[
        str,
        typer.Option(help="The milestone to go back to: token, sequence number, or a time (the newest by then)."),
    ],
    job_file: JobOption = None,
    partitions: PartitionsOption = None,
    reason: ReasonOption = "",
    another: AnotherOption = False,
    dry_run: DryRunOption = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print the windows that would change, and do nothing else.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, max=100_000, help="With --diff: windows to show.")] = 20,
    wait: WaitOption = PROMOTE_S,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Go back to a milestone: claim a generation from it, which is promoted with its first milestone.

    Later events are read again. Views reload. The publisher writes the differences as marked corrections, and
    tombstones for keys that vanish.

    --diff compares that milestone with the newest one, as 'cutwater diff' does, before anything is claimed. It
    shows what readers get at the promotion. Then the events after that milestone are read again, and counted.

    If an open claim has the same milestone and the same number of partitions, the command continues with it and
    requests its promotion. If that generation is the promoted one, nothing is left to do. --another goes back once
    more.

    Exit 1: with --diff, windows would change. 2: the milestone does not exist, or its state is not kept any more.
    4: the generation was not promoted in time. It still will be, unless 'cutwater generation abort' gives it up.

    Examples:  cutwater rollback --to g1-local-00000000:42
    ·  cutwater rollback --to g1-local-00000000:42 --dry-run  ·  cutwater rollback --to 42 --diff --limit 100
    ·  cutwater rollback --to 2026-01-31T08:00:00Z --diff --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    token = _token_of(place, to)
    words = GenerationRequest(token, partitions, True, reason or f"rollback to {to}", another)
    if diff:
        return _preview(place, words, limit, as_json)
    if dry_run:
        claim(place, words, dry_run, as_json)
        return 0
    told = {"partitions": partitions, "reason": reason, "another": another}
    with audit_action(ROLLBACK, place.settings, place.cluster, place.job.name, token, given=told) as action:
        made = claim(place, words, dry_run, as_json)
        claims_of(place).promote(made.generation)
        action.record_result(f"{made.generation} is claimed, and its promotion requested")
    await_promotion(place, made.generation, wait)
    return 0


def _token_of(place: JobContext, to: str) -> str:
    """Return the token of the named milestone. Raises UsageError if the commit stream does not hold it."""
    point = MilestonePoint.of(to)
    if point.token is not None:
        return to
    if point.generation is not None:
        raise UsageError(f"{to} is a generation: name one of its milestones, as 'cutwater milestones' lists them")
    from cutwater.past.milestone_lookup import find_milestone  # imports RocksDB

    return str(find_milestone(place.cluster, place.job.name, point).milestone.token)


def _preview(place: JobContext, words: GenerationRequest, limit: int, as_json: bool) -> int:
    """Print what the claim would be, and the windows that would change."""
    from cutwater.cli.past import difference_report as report  # imports RocksDB

    to = MilestonePoint.of(words.token or "")
    found = report.compared(report.request_of(place, MilestonePoint(), to, limit=limit))
    more = {"diff": report.difference_json(found)} if as_json else None
    claim(place, words, dry_run=True, as_json=as_json, more=more)
    if not as_json:
        report.print_difference(found)
    return report.exit_code_of(found)


def register(app: typer.Typer) -> None:
    app.command()(rollback)
