"""`generation hold`, `generation release`: a candidate's promotion waits, and need not wait any more."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cutwater.adapters.job_files.models import parse_duration
from cutwater.cli.action_audit import actor, audit_action
from cutwater.cli.generations.claim import claims_of
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobContext,
    JobNameOption,
    JobOption,
    JsonOption,
    find_job,
)
from cutwater.cli.report import iso, print_json, print_note, report_errors
from cutwater.core.access.actions import HOLD, RELEASE_HOLD
from cutwater.core.errors import UsageError
from cutwater.core.generations.holds import require_length
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Hold

GenerationArgument = Annotated[str, typer.Argument(help="The candidate's id, as 'generation list' shows it.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
ReasonOption = Annotated[str, typer.Option(help="Why, for whoever wants to promote it.")]


@report_errors
def hold(
    generation: GenerationArgument,
    job_file: JobOption = None,
    for_: Annotated[str, typer.Option("--for", help="How long, at most a day, such as 30m.")] = "1h",
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a candidate's promotion wait, also one that is requested already.

    The candidate continues to catch up, and the promoted generation to commit. The hold ends by itself; another
    hold replaces it. 'generation promote' refuses meanwhile, unless --despite-hold is given. No hold delays a
    rollback, a failover, or the generation that 'cutwater up' starts after one has ended.

    A hold may be without effect if the candidate's commit-signal takes over in the moment when it is written.

    Exit 2: the candidate is promoted, given up or unknown, or its promotion cannot wait. 6: another process claims
    or promotes meanwhile: run it again.

    Examples:  cutwater generation hold g2-local-5f0c21aa --for 2h --reason "dead letters rise"
    ·  cutwater generation hold g2-local-5f0c21aa --dry-run
    """
    place, wanted = find_job(job_file, bootstrap_servers, data_dir, job_name), Generation.parse(generation)
    claims, for_ms = claims_of(place), _duration_ms(for_)
    if dry_run:
        require_length(for_ms)
        claims.to_hold(wanted)
        print_note(f"{wanted} would be held for {for_}")
        found = claims.hold_of(wanted)
    else:
        told = {"for": for_, "reason": reason}
        with audit_action(HOLD, place.settings, place.cluster, place.job.name, str(wanted), told) as action:
            found = claims.hold(wanted, for_ms, actor(place.settings, HOLD).name, reason)
            action.record_result(f"held until {iso(found.until_ms)}")
    _show(place, wanted, found, as_json)


@report_errors
def release(
    generation: GenerationArgument,
    job_file: JobOption = None,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a candidate's hold: its promotion, if it is requested, continues. Repeating the command is safe.

    Exit 2: the generation was never claimed. 6: another process claims or promotes meanwhile: run it again.

    Examples:  cutwater generation release g2-local-5f0c21aa
    ·  cutwater generation release g2-local-5f0c21aa --dry-run --json
    """
    place, wanted = find_job(job_file, bootstrap_servers, data_dir, job_name), Generation.parse(generation)
    claims = claims_of(place)
    if dry_run:
        found = claims.hold_of(wanted)
        print_note(f"the hold of {wanted} would end" if found else f"{wanted} is not held")
    else:
        told = {"reason": reason}
        with audit_action(
            RELEASE_HOLD, place.settings, place.cluster, place.job.name, str(wanted), told
        ) as action:
            had = claims.release(wanted, actor(place.settings, RELEASE_HOLD).name, reason)
            action.record_result("its hold has ended" if had else "it was not held")
        found = None
    _show(place, wanted, found, as_json)


def _duration_ms(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--for {text}: {error}") from None


def _show(place: JobContext, generation: Generation, found: Hold | None, as_json: bool) -> None:
    if as_json:
        print_json({"job": place.job.name, "generation": str(generation), "hold": hold_json(found)})
    elif found:
        print_note(f"{generation} is held until {iso(found.until_ms)}, by {found.by}")
    else:
        print_note(f"{generation} is not held")


def hold_json(one: Hold | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"until": iso(one.until_ms), "by": one.by, "reason": one.reason, "since": iso(one.at_ms)}
