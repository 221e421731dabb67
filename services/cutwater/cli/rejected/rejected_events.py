"""`dead-letters`: lists events that a job could not use, and produces them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.event_producer import require_own_source
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.rejected_events import dead_letters
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import DataDirOption, JobNameOption, JsonOption, WideOption, settings_for
from cutwater.cli.rejected.entries import (
    LETTER,
    EpochOption,
    GenerationOption,
    LimitOption,
    letter_json,
    parse_generation,
    place_json,
    print_entries,
    print_notes,
    say_problems,
    sort_key,
)
from cutwater.cli.report import err, out, print_json, report_errors
from cutwater.core.access.actions import REPLAY_LETTERS
from cutwater.core.driver.rejected_events import Choice, EventPosition, Letter
from cutwater.core.errors import UsageError
from cutwater.core.events.rejection import REASONS
from cutwater.core.protocol.generation import Generation
from cutwater.local import running_file
from cutwater.operations.replay_dead_letters import Replayer

letters_app = typer.Typer(
    help="Events that could not be used: list them, or produce them again.\n\n"
    "Examples:  cutwater dead-letters list --reason undecodable  ·  cutwater dead-letters replay --dry-run",
    no_args_is_help=True,
)
ReasonOption = Annotated[
    list[str] | None, typer.Option(help=f"Only this reason; may be repeated: {', '.join(REASONS)}.")
]


@letters_app.command("list")
@report_errors
def list_letters(
    reason: ReasonOption = None,
    epoch: EpochOption = None,
    unreplayed: Annotated[bool, typer.Option("--unreplayed", help="Only entries not produced again.")] = False,
    generation: GenerationOption = None,
    limit: LimitOption = 100,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """List the events that could not be used, by epoch. Exit 1 if the list differs from the milestones' counts.

    Lists the entries of the generation, and those of its ancestors up to its parent milestone.

    Examples:  cutwater dead-letters list --limit 10  ·  cutwater dead-letters list --reason "no key" --json
    ·  cutwater dead-letters list --generation g2-local-5f0c21aa
    """
    settings = settings_for(data_dir)
    stack = running_file.require(settings.data_dir, job_name)
    found = _letters(stack, settings, parse_generation(generation))
    print_notes(found.elsewhere)
    chosen = [one for one in _with_reason(found.entries, reason) if epoch is None or one.by.epoch == epoch]
    chosen = [one for one in chosen if not (unreplayed and one.replayed)]
    code = print_entries(f"dead letters of {stack.job}", chosen, found.problems, LETTER, limit, as_json)
    if not as_json:
        for word, count in Counter(one.reason for one in chosen).most_common():
            out.print(f"{word}: {count}")
    return code


@letters_app.command("replay")
@report_errors
def replay(
    reason: ReasonOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of oldest entries to produce.")] = 1_000,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be produced, write nothing.")
    ] = False,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Produce dead letters to their source topic again, each at most once. The list records the new offsets.

    For events that a corrected schema, job file or clock can now use. An event that still cannot be used becomes a
    new dead letter.

    Examples:  cutwater dead-letters replay --dry-run  ·  cutwater dead-letters replay --reason "unknown schema"
    """
    settings = settings_for(data_dir)
    stack = running_file.require(settings.data_dir, job_name)
    if dry_run:
        done = _replay(None, stack, settings, reason, limit, as_json)
    else:
        told = {"reason": ", ".join(reason or ()), "limit": limit}
        with audit_action(REPLAY_LETTERS, settings, stack.cluster, stack.job, given=told) as action:
            # Fence other replays before reading their marks, so that no letter is produced twice.
            with closing(_replayer(stack)) as replayer:
                done = _replay(replayer, stack, settings, reason, limit, as_json)
            action.record_result(f"{len(done.chosen):,} are produced again, {done.left:,} more are left")
    found, chosen, gone = done.found, done.chosen, done.gone
    if as_json:
        entries = [{**letter_json(one), "replayed": place_json(gone.get(one.event))} for one in chosen]
        print_json({"dry_run": dry_run, "problems": found.problems, "entries": entries})
    else:
        for one in chosen if dry_run else ():
            out.print(f"{one.event}: {one.reason}")
        said = "would be" if dry_run else "were"
        out.print(f"{len(chosen)} dead letters {said} produced again; {done.left} more are left")
    return say_problems(found.problems)


def _letters(
    stack: running_file.RunningStack, settings: Settings, generation: Generation | None = None
) -> Choice[Letter]:
    """Return the dead letters, without anything of an event's value if CUTWATER_SHOW_PAYLOADS is off."""
    if stack.program:
        raise UsageError(
            f"job {stack.job} is attached to a query of your own, which keeps no list of events: 'rejected' of a "
            "milestone is the number of rows that the query dropped (docs/ATTACH.md)"
        )
    found = dead_letters(stack.cluster, stack.job, generation)
    if settings.show_payloads:
        return found
    return replace(found, entries=[one.without_payload() for one in found.entries])


def _replayer(stack: running_file.RunningStack) -> Replayer:
    job = load_job(Path(stack.job_file))
    require_own_source(job)
    return Replayer(stack.cluster, stack.job, job.topic, now_ms)


class _Replay(NamedTuple):
    found: Choice[Letter]
    chosen: list[Letter]
    left: int
    """Open letters beyond the limit."""
    gone: dict[EventPosition, EventPosition]
    """The new positions; none of a dry run."""


def _replay(
    replayer: Replayer | None,
    stack: running_file.RunningStack,
    settings: Settings,
    reasons: Sequence[str] | None,
    limit: int,
    quiet: bool,
) -> _Replay:
    found = _letters(stack, settings)
    open_letters = [one for one in _with_reason(found.entries, reasons) if one.replayed is None]
    chosen = sorted(open_letters, key=sort_key)[:limit]
    gone: dict[EventPosition, EventPosition] = {}
    if replayer is not None:
        with err.task("produced again", "events", len(chosen), quiet=quiet, transient=False) as progress:
            gone = replayer.replay(chosen, progress)
    return _Replay(found, chosen, len(open_letters) - len(chosen), gone)


def _with_reason(letters: Sequence[Letter], reasons: Sequence[str] | None) -> list[Letter]:
    unknown = sorted(set(reasons or ()) - set(REASONS))
    if unknown:
        raise UsageError(f"'{unknown[0]}' is not a reason; the reasons are: {', '.join(REASONS)}")
    return [one for one in letters if not reasons or one.reason in reasons]


def register(app: typer.Typer) -> None:
    app.add_typer(letters_app, name="dead-letters")
