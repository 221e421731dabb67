"""`late`: lists events that came too late, and starts a generation that counts them."""

from __future__ import annotations

from typing import Annotated

import typer

from cutwater.adapters.topics.rejected_events import late_pairs
from cutwater.cli.action_audit import audit_action
from cutwater.cli.generations.claim import claim
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
    settings_for,
)
from cutwater.cli.rejected.entries import (
    LATE,
    EpochOption,
    GenerationOption,
    LimitOption,
    parse_generation,
    print_entries,
    print_notes,
    say_problems,
)
from cutwater.cli.report import iso, out, report_errors
from cutwater.core.access.actions import LATE_REPLAY
from cutwater.local import running_file
from cutwater.operations.generations.late_replay import LateFilter, LateReplayPlan, plan_late_replay
from cutwater.operations.generations.requests import GenerationRequest

late_app = typer.Typer(
    help="Events that arrived after their window had closed: list them, or let a generation count them.\n\n"
    "Examples:  cutwater late list --key JFK --json  ·  cutwater late replay --dry-run",
    no_args_is_help=True,
)

_ADVICE = (
    "The late events need that milestone or an earlier one of its generation: name one with --from, or select "
    "later events with --since"
)

KeyOption = Annotated[str | None, typer.Option(help="Only this key.")]


@late_app.command("list")
@report_errors
def list_late(
    key: KeyOption = None,
    epoch: EpochOption = None,
    generation: GenerationOption = None,
    limit: LimitOption = 100,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """List the events that arrived too late, by epoch. Exit 1 if milestones count differently.

    Lists the entries of the generation, and those of its ancestors up to its parent milestone.

    Examples:  cutwater late list --limit 10  ·  cutwater late list --key JFK --json
    ·  cutwater late list --generation g2-local-5f0c21aa
    """
    stack = running_file.require(settings_for(data_dir).data_dir, job_name)
    found = late_pairs(stack.cluster, stack.job, parse_generation(generation))
    print_notes(found.elsewhere)
    chosen = [one for one in found.entries if key in (None, one.key) and epoch in (None, one.by.epoch)]
    return print_entries(f"late events of {stack.job}", chosen, found.problems, LATE, limit, as_json)


@late_app.command("replay")
@report_errors
def replay_late(
    job_file: JobOption = None,
    key: KeyOption = None,
    epoch: EpochOption = None,
    since: Annotated[str | None, typer.Option(help="Only events listed after this milestone, a token.")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="Token of its parent. Default: the newest before these events.")
    ] = None,
    another: Annotated[
        bool, typer.Option("--another", help="Claim a new generation although an earlier claim is the same.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Start a generation that counts late events, from the newest milestone before them.

    Promote it with 'cutwater generation promote'. Then the events are in their rows and no more on the list, and
    the output has the changed rows as corrections. Of the late events after its parent milestone all count whose
    windows are still in the state (retention), also those that are not selected. The job file needs
    late.amend_for.

    Exit 1: the list is not complete. 2: none of the events can count, or the parent's state or the events after it
    are not kept any more. 4: brokers or the store of snapshots do not answer.

    Examples:  cutwater late replay --dry-run  ·  cutwater late replay --key JFK --since g1-local-00000000:42
    ·  cutwater late replay job.yaml --bootstrap-servers kafka-1:9092 --from g1-local-00000000:40 --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    plan = plan_late_replay(place.cluster, place.job, LateFilter(key, epoch, since), from_)
    reason = f"late events that count: {plan.counted:,}"
    words = GenerationRequest(str(plan.parent.token), None, False, reason, another, plan.opened)
    if not as_json:
        _print_plan(plan, dry_run)
    told = {"late": plan.as_object()}
    if dry_run:
        claim(place, words, dry_run, as_json, told, _ADVICE)
        return say_problems(plan.problems)
    given = {"key": key, "epoch": epoch, "since": since, "another": another}
    with audit_action(
        LATE_REPLAY, place.settings, place.cluster, place.job.name, str(plan.parent.token), given=given
    ) as action:
        made = claim(place, words, dry_run, as_json, told, _ADVICE)
        action.record_result(f"{made.generation} is claimed; it counts {plan.counted:,} events")
    return say_problems(plan.problems)


def _print_plan(plan: LateReplayPlan, dry_run: bool) -> None:
    verb = "would count" if dry_run else "will count"
    after = f"their windows end after {iso(plan.opened.floor_ms)}"
    out.print(f"late events that {verb}: {plan.counted:,}; selected: {plan.selected:,}; {after}")
    for why in plan.left_out:
        out.print(why)


def register(app: typer.Typer) -> None:
    app.add_typer(late_app, name="late")
