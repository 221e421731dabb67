"""`generation`: start a generation from a milestone, promote it, give it up."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import promoted
from cutwater.cli.action_audit import actor, audit_action
from cutwater.cli.generations.change import print_job_file
from cutwater.cli.generations.claim import claim, claims_of
from cutwater.cli.generations.generation_rows import first_generations, show_generations
from cutwater.cli.generations.hold import hold, release
from cutwater.cli.generations.promotion_wait import await_promotion, print_promotion_plan
from cutwater.cli.generations.prune import prune
from cutwater.cli.generations.reader_wait import await_readers
from cutwater.cli.generations.schedule import (
    RateOption,
    WindowOption,
    YieldOption,
    ZoneOption,
    asked_bounds,
    requested,
    schedule,
    schedule_json,
    warn_if_late,
    warn_if_too_slow,
)
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.report import print_note, report_errors
from cutwater.core.access.actions import DROP, PROMOTE, START
from cutwater.core.pacing.schedules import UNBOUND
from cutwater.core.protocol.generation import Generation
from cutwater.operations.generations.redefinition import Redefined
from cutwater.operations.generations.requests import GenerationRequest

PROMOTE_S = 600.0
NEWEST = "the newest milestone"

group = typer.Typer(
    name="generation",
    help="Generations: start one from a milestone, promote it when it has caught up, list, abort, prune.\n\n"
    "Examples:  cutwater generation start --partitions 6  ·  cutwater generation list  ·  "
    "cutwater generation promote g2-local-5f0c21aa",
    no_args_is_help=True,
)
GenerationArgument = Annotated[str, typer.Argument(help="The generation's id, as 'generation list' shows it.")]
ReasonOption = Annotated[str, typer.Option(help="The reason, as 'generation list' shows it.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
AnotherOption = Annotated[
    bool, typer.Option("--another", help="Claim a new generation although an earlier claim is the same.")
]
PartitionsOption = Annotated[
    int | None, typer.Option(min=1, help="Partitions of its changelog. Default: as its parent.")
]
WaitOption = Annotated[float, typer.Option(min=0, help="Seconds to wait for the promotion; 0 returns at once.")]


@group.command("start")
@report_errors
def start(
    job_file: JobOption = None,
    from_: Annotated[str | None, typer.Option("--from", help="Token of its parent. Default: the newest.")] = None,
    partitions: PartitionsOption = None,
    new_file: Annotated[
        Path | None,
        typer.Option("--job-file", help="The generation's own job file. Default: as its parent.", dir_okay=False),
    ] = None,
    reason: ReasonOption = "",
    another: AnotherOption = False,
    window: WindowOption = None,
    window_zone: ZoneOption = None,
    max_rate: RateOption = None,
    yield_: YieldOption = None,
    dry_run: DryRunOption = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Claim a generation: its id, its parent milestone, its changelog. The promoted one continues meanwhile.

    A stack of 'cutwater up' starts the new driver and commit-signal by itself. Elsewhere start both with
    CUTWATER_GENERATION set to the printed id. Run 'cutwater generation promote' when it has caught up.

    The output names where the parent's state will be read: from its changelog, else from a snapshot of exactly
    that milestone.

    With --job-file the generation has another job file: measures added, removed or renamed, another filter, a
    coarser key, a larger pane, another lateness, retention or event schema. The output says for each measure
    whether it is carried over, or from which window on it is complete. --dry-run prints that before anything is
    claimed. The claim carries the file with its schemas, so every process of the job finds it there.

    With --dry-run, and measures of kept: state in the job file, the output tells from which window on every row
    has its stored values. Before, a row has one only if its events can be counted again.

    If an open claim has the same parent (without --from: any milestone of the promoted generation), the same
    number of partitions and the same --job-file, the command continues with it and reports so. --another claims
    one more.

    With --dry-run and another number of partitions the output tells how many shards, keys and rows get another
    partition, by a count of the parent's changelog (of its newest 2,000,000 records).

    All shards move at once, in stages: the parent's rows are read, the events since are caught up, and one record
    promotes it. With --window each stage begins within a window only, and the candidate is paused outside of it;
    --max-rate bounds its reading, and --yield lets the promoted driver wait for it. 'generation schedule' changes
    these later.

    Exit 2: the milestone does not exist, may not be a parent, its state is not kept any more, or the generation
    cannot differ so. 4: brokers or the store of snapshots do not answer.

    Examples:  cutwater generation start --partitions 6  ·  cutwater generation start --from g1-local-00000000:42
    ·  cutwater generation start --job-file new.yaml --dry-run
    ·  cutwater generation start --partitions 16 --window 02:00-05:00 --window-zone Europe/Berlin --max-rate 5000
    ·  cutwater generation start job.yaml --bootstrap-servers kafka-1:9092 --dry-run --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    redefined = Redefined.read(new_file, place.job_file, place.job) if new_file else None
    bounds = asked_bounds(UNBOUND, window, window_zone, max_rate, yield_)
    asked = None if dry_run else requested(place, bounds, START)
    words = GenerationRequest(from_, partitions, False, reason, another, redefined=redefined, bounds=asked)
    more = {"schedule": schedule_json(bounds, now_ms())}
    warn_if_late(bounds)
    warn_if_too_slow(place, bounds)
    if dry_run:
        claim(place, words, dry_run, as_json, more)
        return
    told = {
        **{"partitions": partitions, "reason": reason, "another": another, "job_file": new_file},
        **({"schedule": str(bounds)} if asked else {}),
    }
    with audit_action(START, place.settings, place.cluster, place.job.name, from_ or NEWEST, given=told) as action:
        made = claim(place, words, dry_run, as_json, more)
        action.record_result(f"{made.generation} is claimed")


@group.command("promote")
@report_errors
def promote(
    generation: GenerationArgument,
    job_file: JobOption = None,
    wait: WaitOption = PROMOTE_S,
    despite_hold: Annotated[
        bool, typer.Option("--despite-hold", help="End a hold of it, and promote it.")
    ] = False,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Do not wait for readers that load its rows ahead.")
    ] = False,
    dry_run: DryRunOption = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Promote a candidate as soon as it has caught up with the newest milestone.

    Its commit-signal writes its first milestone directly after that one, so readers see one generation or the
    other. The previous generation ends. Repeating the command is safe.

    Publisher and rehydrators load a candidate's rows ahead. The command waits until they have them, for half of
    --wait at most, and then requests the promotion: the output and the API then pause for less time. A rollback
    waits for nobody, nor do --at-once and --wait 0.

    A candidate with maintenance windows is promoted within the next one in which it has caught up: --wait 0 only
    requests that.

    Exit 2: the candidate may not be promoted, or 'generation hold' lets it wait. 4: it was not promoted in time,
    or its next window opens later. It still will be, unless 'cutwater generation abort' gives it up.

    Examples:  cutwater generation promote g2-local-5f0c21aa
    ·  cutwater generation promote g2-local-5f0c21aa --dry-run
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    wanted = Generation.parse(generation)
    if dry_run:
        print_promotion_plan(place, wanted, despite_hold)
    else:
        told = {"despite_hold": despite_hold}
        with audit_action(PROMOTE, place.settings, place.cluster, place.job.name, str(wanted), told) as action:
            began_s = time.monotonic()
            if claims_of(place).to_promote(wanted, despite_hold) and not at_once:
                await_readers(place, wanted, wait / 2)
            claims_of(place).promote(wanted, actor(place.settings, PROMOTE).name if despite_hold else "")
            action.record_result("its promotion is requested")
        await_promotion(place, wanted, max(wait - (time.monotonic() - began_s), 1.0) if wait else 0.0)
    show_generations(place, [claims_of(place).known().require(wanted)], as_json)


@group.command("abort")
@report_errors
def abort(
    generation: GenerationArgument,
    job_file: JobOption = None,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Give a candidate up: it is never promoted, and its driver and commit-signal end.

    Exit 2: the generation is promoted already, or during the call.

    Examples:  cutwater generation abort g2-local-5f0c21aa --reason "the other plan"
    ·  cutwater generation abort g2-local-5f0c21aa --dry-run
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    wanted = Generation.parse(generation)
    if dry_run:
        would = "would be given up" if claims_of(place).to_abort(wanted).open else "is given up already"
        print_note(f"{wanted} {would}")
    else:
        with audit_action(DROP, place.settings, place.cluster, place.job.name, str(wanted), {"reason": reason}):
            claims_of(place).abort(wanted, reason or "given up by hand")
    show_generations(place, [claims_of(place).known().require(wanted)], as_json)


@group.command("job-file")
@report_errors
def job_file_of(
    generation: GenerationArgument,
    job_file: JobOption = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the job file that a generation was claimed with; with --json also the schemas that it names.

    Without --json, a note names the window from which everything new is complete.

    Exit 2: the generation was never claimed, or no claim carries its job file: it has that of its parent.

    Examples:  cutwater generation job-file g2-local-5f0c21aa
    ·  cutwater generation job-file g2-local-5f0c21aa --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    print_job_file(claims_of(place).known(), Generation.parse(generation), as_json)


@group.command("list")
@report_errors
def list_(
    job_file: JobOption = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the job's first generation, every claimed one, and how far each candidate is behind.

    For a candidate with two milestones, also show its read rate and the estimated time to catch up.

    Examples:  cutwater generation list  ·  cutwater generation list --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    found = list(claims_of(place).known().by_id.values())
    show_generations(place, found, as_json, first_generations(found, promoted(place.cluster, place.job.name)))


def register(app: typer.Typer) -> None:
    group.command("hold")(hold)
    group.command("release")(release)
    group.command("schedule")(schedule)
    group.command("prune")(prune)
    app.add_typer(group)
