"""`canary`: start a candidate that is compared with the promoted generation, show what came of it, decide."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.job_files.models import parse_duration
from cutwater.cli.action_audit import audit_action
from cutwater.cli.generations.canary_report import (
    NamedCanary,
    await_verdict,
    canary_json,
    find_canary,
    print_canary,
)
from cutwater.cli.generations.claim import claim, claims_of
from cutwater.cli.generations.generation import (
    NEWEST,
    PROMOTE_S,
    AnotherOption,
    DryRunOption,
    PartitionsOption,
    ReasonOption,
    WaitOption,
)
from cutwater.cli.generations.promotion_wait import await_promotion, print_promotion_plan
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
from cutwater.cli.report import print_json, print_note, report_errors
from cutwater.core.access.actions import DROP_CANARY, PROMOTE_CANARY, START_CANARY
from cutwater.core.canary.gate import Gate
from cutwater.core.errors import UsageError
from cutwater.operations.generations.canary_check import require_comparable
from cutwater.operations.generations.redefinition import Redefined
from cutwater.operations.generations.requests import GenerationRequest

group = typer.Typer(
    name="canary",
    help="Canary: run a candidate beside the promoted generation, and compare the two milestone by milestone.\n\n"
    "Examples:  cutwater canary start --job-file new.yaml --milestones 1000  ·  cutwater canary status --diff",
    no_args_is_help=True,
)
CanaryArgument = Annotated[
    str | None, typer.Argument(help="The generation's id. Default: the newest canary.", show_default=False)
]
JobFileOption = Annotated[
    Path | None,
    typer.Option(
        "--job-file",
        help="The job file, needed with --bootstrap-servers. Default: the running stack's.",
    ),
]


@group.command("start")
@report_errors
def start(
    job_file: JobOption = None,
    new_file: Annotated[
        Path | None,
        typer.Option("--job-file", help="The candidate's own job file. Default: as its parent.", dir_okay=False),
    ] = None,
    milestones: Annotated[
        int, typer.Option(min=0, help="Promote after so many compared milestones; 0: decide yourself.")
    ] = 0,
    differences: Annotated[
        int, typer.Option(min=0, help="Drop at the first milestone with more differing rows.")
    ] = 0,
    tolerance: Annotated[
        float, typer.Option(min=0, max=1, help="Relative difference up to which floating-point numbers are equal.")
    ] = 1e-9,
    keep: Annotated[
        str, typer.Option(help="How long the old generation keeps counting after a promotion: 0s, 30m, 24h.")
    ] = "1h",
    partitions: PartitionsOption = None,
    reason: ReasonOption = "",
    another: AnotherOption = False,
    dry_run: DryRunOption = False,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the gate's decision.")] = 0,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Claim a candidate that is compared with the promoted generation, and return at once.

    A stack of 'cutwater up' starts its driver, its commit-signal and the comparing process by itself. Elsewhere
    start the three with CUTWATER_GENERATION set to the printed id. The candidate ends its epochs where the
    promoted generation has ended its own. So both have states of exactly the same events, which are compared row
    by row, in the measures that both job files share.

    With --milestones the gate decides by itself: it promotes after so many compared milestones, and drops the
    candidate at the first one with more than --differences rows that differ. After a promotion the old generation
    keeps counting for --keep, so that 'cutwater rollback' brings it back at once.

    Exit 2: the two job files have no row in common, or the generation may not be claimed. 4: brokers do not
    answer, or there is no decision within --wait.

    Examples:  cutwater canary start --job-file new.yaml --dry-run
    ·  cutwater canary start --job-file new.yaml --milestones 1000 --differences 0
    ·  cutwater canary start --job-file new.yaml --milestones 100 --wait 3600 --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    redefined = Redefined.read(new_file, place.job_file, place.job) if new_file else None
    gate = Gate(milestones, differences, tolerance, _duration_ms(keep))
    require_comparable(place.cluster, place.job, redefined, tolerance)
    words = GenerationRequest(None, partitions, False, reason, another, redefined=redefined, canary=gate)
    if dry_run:
        claim(place, words, dry_run, as_json)
        return
    told = {
        **{"job_file": new_file, "milestones": milestones, "differences": differences},
        **{"partitions": partitions, "reason": reason, "another": another},
    }
    with audit_action(START_CANARY, place.settings, place.cluster, place.job.name, NEWEST, given=told) as action:
        made = claim(place, words, dry_run, as_json, silent=bool(as_json and wait))
        action.record_result(f"{made.generation} is claimed")
    if wait:
        await_verdict(place, made.generation, wait)
        _show(place, find_canary(place, str(made.generation)), as_json)


@group.command("status")
@report_errors
def status(
    generation: CanaryArgument = None,
    job_file: JobFileOption = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Build both states, and print every window that differs, and how.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, max=100_000, help="With --diff: windows to show.")] = 20,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Show how far a canary is compared, what differs, what its gate has decided, and how to go back.

    Not compared, and counted: milestones of which the other generation has none of the same events, and rows of
    windows that were closed when the two listed different late events.

    --diff builds the two states of the last compared pair in a folder below the data folder, as 'cutwater diff'
    does, and compares them whole.

    Exit 0: no row differs. 1: some do. 2: there is no such canary. 4: brokers do not answer.

    Examples:  cutwater canary status  ·  cutwater canary status --diff --limit 100
    ·  cutwater canary status g2-local-5f0c21aa --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    return _show(place, find_canary(place, generation), as_json, limit if diff else None)


@group.command("promote")
@report_errors
def promote(
    generation: CanaryArgument = None,
    job_file: JobFileOption = None,
    wait: WaitOption = PROMOTE_S,
    dry_run: DryRunOption = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Promote a canary now, whatever its gate says. Repeating the command is safe.

    Exit 2: there is no such canary, or it may not be promoted. 4: it was not promoted in time. It still will be.

    Examples:  cutwater canary promote  ·  cutwater canary promote g2-local-5f0c21aa --dry-run
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    found = find_canary(place, generation)
    if dry_run:
        print_promotion_plan(place, found.generation)
    else:
        with audit_action(
            PROMOTE_CANARY, place.settings, place.cluster, place.job.name, str(found.generation)
        ) as action:
            claims_of(place).promote(found.generation)
            action.record_result("its promotion is requested")
        await_promotion(place, found.generation, wait)
    _show(place, find_canary(place, str(found.generation)), as_json)


@group.command("drop")
@report_errors
def drop(
    generation: CanaryArgument = None,
    job_file: JobFileOption = None,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Give a canary up: it is never promoted, and its processes end.

    Exit 2: there is no such canary, or it is promoted already, or during the call.

    Examples:  cutwater canary drop --reason "the other plan"  ·  cutwater canary drop --dry-run
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    found = find_canary(place, generation)
    if dry_run:
        is_open = claims_of(place).to_abort(found.generation).open
        print_note(f"{found.generation} {'would be given up' if is_open else 'is given up already'}")
    else:
        told = {"reason": reason}
        with audit_action(DROP_CANARY, place.settings, place.cluster, place.job.name, str(found.generation), told):
            claims_of(place).abort(found.generation, reason or "given up by hand")
    _show(place, find_canary(place, str(found.generation)), as_json)


def _show(place: JobContext, found: NamedCanary, as_json: bool, diff_limit: int | None = None) -> int:
    """Print a canary, and return the exit code of `status`. `diff_limit`: windows of a whole comparison."""
    difference = None
    if diff_limit is not None:
        from cutwater.cli.past import difference_report as report  # imports RocksDB

        points = found.points()
        asked = report.request_of(place, *points, found.jobs(place), limit=diff_limit)
        difference = report.compared(asked)
    if as_json:
        more = {"diff": report.difference_json(difference) if difference else None}
        print_json({**canary_json(found), **more})
    else:
        print_canary(found)
        if difference:
            report.print_difference(difference)
    differing = found.candidate.comparison.differing if found.candidate.comparison else 0
    return 1 if (difference.summary.rows if difference else differing) else 0


def _duration_ms(text: str) -> int:
    """Return a duration in ms. Raises UsageError."""
    if text.strip() in ("0", "0s"):
        return 0
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--keep: {error}") from None


def register(app: typer.Typer) -> None:
    app.add_typer(group)
