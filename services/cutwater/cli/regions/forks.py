"""`forks`: milestones that another region committed after the one this region continued from, and the loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.clock import now_ms
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import BootstrapOption, JsonOption, WideOption, settings_for
from cutwater.cli.report import err, iso, out, print_json, report_errors, table
from cutwater.core.access.actions import DECIDE_FORK
from cutwater.core.errors import UsageError
from cutwater.core.failover.exact_loss import ExactLoss, PartitionLoss
from cutwater.core.failover.forks import Fork, Line
from cutwater.core.protocol.generation import Generation
from cutwater.core.util.text_tables import Column, ranked
from cutwater.operations.regions.forks import ForkReader

app = typer.Typer(
    help="After a failover: list conflicting milestones of the other region, decide which count, count the loss.\n"
    "\n"
    "Examples:  cutwater forks list job.yaml  ·  cutwater forks loss job.yaml --origin us",
    no_args_is_help=True,
)
JobFile = Annotated[Path, typer.Argument(help="The job file.")]
UNDECIDED = 1
"""Exit code while a fork is not decided."""
_LINE = ("milestones", "events", "committed from", "to")
"""Columns of a line of milestones, most important first."""


@app.command("list")
@report_errors
def list_(
    job_file: JobFile,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Show each generation that continues another region's milestone, and what that region committed after it.

    Queries that region if CUTWATER_ORIGIN_* name it and it answers; else only milestones that a mirror has copied
    since are known. Nothing is deleted: a fork stays readable, there and in its copies here.

    Exit 0: nothing conflicts, or it was decided. 1: a fork waits for 'cutwater forks decide'. 2: the job has no
    topics here. 4: this region's brokers do not answer.

    Examples:  cutwater forks list job.yaml  ·  cutwater forks list job.yaml --json
    """
    settings, forking = _make_forking(job_file, bootstrap_servers)
    with err.status("reading claims and commit streams"):
        found = forking.forks()
    if as_json:
        print_json({"region": settings.region, "forks": [fork_json(one) for one in found]})
    elif not found:
        out.print(f"region {settings.region}: no generation continues another region's milestone")
    else:
        for one in found:
            _show(one)
    return UNDECIDED if any(one.open for one in found) else 0


@app.command()
@report_errors
def decide(
    job_file: JobFile,
    keep: Annotated[
        str,
        typer.Option(help="The generation that counts: the one here, or one of the fork, as 'list' shows them."),
    ],
    reason: Annotated[str, typer.Option(help="The reason, as 'list' shows it.")],
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Record which of two conflicting lines counts. 'list' shows the decision; it deletes and stops nothing.

    The newest decision counts.

    Exit 2: the generation is not part of a fork. 4: this region's brokers do not answer.

    Examples:  cutwater forks decide job.yaml --keep g2-eu-0badcafe --reason "readers follow eu"
    ·  cutwater forks decide job.yaml --keep g1-us-00000000 --reason "us had the payments" --json
    """
    settings, forking = _make_forking(job_file, bootstrap_servers)
    kept = Generation.parse(keep)
    with audit_action(DECIDE_FORK, settings, settings.cluster, load_job(job_file).name, keep, {"reason": reason}):
        made = forking.decide(kept, reason, now_ms())
    if as_json:
        print_json(
            {"fork": str(made.generation), "keeps": made.keeps, "reason": reason, "decided": iso(made.at_ms)}
        )
    else:
        out.print(f"{made.keeps} is kept in the fork at {made.generation}; nothing was deleted")


@app.command()
@report_errors
def loss(
    job_file: JobFile,
    origin: Annotated[str | None, typer.Option(help="The failed region. Default: CUTWATER_ORIGIN_REGION.")] = None,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Count exactly what the newest failover has lost, when the failed region answers again.

    Lists the milestones that were not carried over, by token. Counts the events that were not copied at the
    failover: how many a mirror has copied since, how many this region has read, and how many were too late for a
    window. Every event after that position is read, in both regions. Events that were produced there after the
    promotion here are included; the number with a later date is printed separately.

    Exit 2: no generation here continues the other region's line. 4: a region does not answer.

    Examples:  cutwater forks loss job.yaml  ·  cutwater forks loss job.yaml --origin us --json
    """
    settings, forking = _make_forking(job_file, bootstrap_servers, origin)
    with err.status("reading") as status:
        fork, found = forking.loss(lambda topic, count: status.update(f"reading {topic}: {count:,} records"))
    if as_json:
        print_json(loss_json(fork, found))
    else:
        _show_loss(settings, fork, found)


def _make_forking(job_file: Path, bootstrap: str | None, origin: str | None = None) -> tuple[Settings, ForkReader]:
    settings, job = settings_for(None, bootstrap), load_job(job_file)
    named = bool(settings.origin_region and settings.origin_bootstrap_servers)
    if origin is not None and origin != settings.origin_region:
        raise UsageError(
            f"CUTWATER_ORIGIN_REGION is '{settings.origin_region}', but --origin is {origin}: name the region "
            "whose brokers CUTWATER_ORIGIN_BOOTSTRAP_SERVERS names"
        )
    there = settings.origin_cluster if named else None
    return settings, ForkReader(settings.cluster, job, settings.origin_region, there)


def fork_json(one: Fork) -> dict[str, Any]:
    decision = one.decision
    return {
        "generation": str(one.claim.generation),
        "origin": one.claim.origin,
        "parent": str(one.parent.token),
        "claimed_ms": one.claim.at_ms,
        "promoted": one.promoted,
        "asked": one.asked,
        "contradicts": None if one.lines is None else one.contradicts,
        "milestones": one.milestones,
        "lines": [_line_json(line) for line in one.lines or ()],
        "offsets_behind": one.behind,
        "decision": None
        if decision is None
        else {"keeps": decision.keeps, "reason": decision.reason, "at_ms": decision.at_ms},
    }


def _line_json(line: Line) -> dict[str, Any]:
    return {
        "first": str(line.first),
        "last": str(line.last),
        "milestones": line.milestones,
        "events": line.events,
        "first_ms": line.first_ms,
        "last_ms": line.last_ms,
    }


def _show(one: Fork) -> None:
    claim = one.claim
    kind = "" if one.promoted else ", a candidate"
    title = f"{claim.generation} continued from {one.parent.token} of {claim.origin} at {iso(claim.at_ms)}{kind}"
    asked = f"asked {claim.origin}" if one.asked else f"{claim.origin} was not queried: copied milestones only"
    if one.lines is None:
        out.print(f"{title}\n  {asked}; the milestone is not on that stream, so forks cannot be detected")
        return
    if not one.contradicts:
        out.print(f"{title}\n  {asked}; nothing conflicts")
    else:
        columns = ranked(("first", "last"), *_LINE)
        out.table(table(title, columns, map(_line_row, one.lines)))
        out.print(f"  {asked}; {one.milestones:,} milestones conflict")
    if one.behind is not None:
        out.print(f"  {one.behind:,} offsets of its source are after {one.parent.token} now")
    if one.decision is not None:
        said = f"{one.decision.keeps} is kept, since {iso(one.decision.at_ms)}: {one.decision.reason}"
        out.print(f"  decided: {said}")
    elif one.contradicts:
        out.print("  not decided: cutwater forks decide JOB_FILE --keep GENERATION --reason WHY")


def _line_row(line: Line) -> list[Any]:
    return [line.first, line.last, line.milestones, line.events, iso(line.first_ms), iso(line.last_ms)]


def loss_json(fork: Fork, found: ExactLoss) -> dict[str, Any]:
    return {
        **fork_json(fork),
        "exact": found.exact,
        "problems": list(found.problems),
        "promoted_ms": found.promoted_ms,
        "events": {
            "missing": found.events,
            "after_promotion": found.afterwards,
            "copied_since": found.copied,
            "absent": found.absent,
            "read": found.read,
            "late": found.late.events,
            "late_pairs": found.late.pairs,
        },
        "partitions": [_missed_json(one) for one in found.partitions],
    }


def _missed_json(one: PartitionLoss) -> dict[str, Any]:
    return {
        "topic": one.place.topic,
        "partition": one.place.partition,
        "copied_up_to": one.copied,
        "end": one.end,
        "events": one.records,
        "after_promotion": one.afterwards,
        "copied_since": one.later.records,
        "deleted_offsets": one.deleted,
        "cut_offsets": one.cut,
        "forgotten_offsets": one.forgotten,
        "rewritten_from": one.rewritten_from,
    }


def _show_loss(settings: Settings, fork: Fork, found: ExactLoss) -> None:
    _show(fork)
    here, there = settings.region, fork.claim.origin
    rows = [
        ("milestones of the fork", fork.milestones, f"committed in {there}, not carried over"),
        ("events", found.events, f"in {there} and not copied at the failover"),
        *_produced_since(found, here, there),
        ("  copied since", found.copied, "copied by a mirror"),
        ("  still absent", found.absent, f"only in {there}: start a mirror of it in {here}"),
        ("  read", found.read, f"by {here}, up to its newest milestone"),
        ("  late", found.late.events, "of these too late: 'cutwater late'"),
    ]
    columns = ("what", "how many", Column("meaning", below=True))
    out.table(table("what the failover has lost", columns, rows))
    for problem in found.problems:
        out.print(f"not exact: {problem}")
    for one in found.partitions:
        for problem in _problems(one, here):
            out.print(f"{one.place.topic}/{one.place.partition}: {problem}")


def _produced_since(found: ExactLoss, here: str, there: str) -> list[tuple[str, int, str]]:
    """Return the row of events produced after the promotion, which no failover could have carried over."""
    if found.promoted_ms is None or not found.afterwards:
        return []
    when = f"the promotion in {here} ({iso(found.promoted_ms)})"
    return [("  produced later", found.afterwards, f"dated after {when}: a producer still writes in {there}")]


def _problems(one: PartitionLoss, here: str) -> list[str]:
    found = []
    if one.deleted:
        found.append(f"{one.deleted:,} offsets after {one.copied:,} are deleted there: the loss is larger")
    if one.forgotten:
        found.append(f"{one.forgotten:,} offsets of the copy are deleted in {here}: more may have been copied")
    if one.cut:
        found.append(f"the log there has lost its end: {one.cut:,} offsets that are copied in {here}")
    if one.rewritten_from is not None:
        found.append(
            f"the log there has lost its end, and has other events from offset {one.rewritten_from:,} on: these "
            f"are counted as missing, and how many were copied since is not known"
        )
    return found


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="forks")
