"""`failover`, `switchover`, `release`: move a job to another region."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.terminal import WaitStatus
from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.candidates import origin_parent, promoted
from cutwater.cli.action_audit import audit_action
from cutwater.cli.generations.promotion_wait import await_first_milestone
from cutwater.cli.options import BootstrapOption, JsonOption, settings_for
from cutwater.cli.regions.failover_report import Steps, TakeoverReport
from cutwater.cli.report import iso, out, print_json, report_errors
from cutwater.core.access.actions import FAILOVER, RELEASE, SWITCHOVER
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.failover.failover import require_current, require_dead, require_not_given
from cutwater.core.generations.candidates import EarlierClaim
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.mirror_records import require_copy_name
from cutwater.core.protocol.records import Claim, Milestone, Release
from cutwater.operations.generations.claim_check import require_continues
from cutwater.operations.generations.claims import copies_of
from cutwater.operations.generations.seed_source import SeedSource, seed_source
from cutwater.operations.regions.failover import Failover, OriginCopies, release, releasing

LOOK_S = 0.5
CLAIMED = "claimed, and its promotion requested"
WAIT_S = 600.0
PATIENCE_S = 2.0
"""How long to wait for an open transaction of the mirror. The mirror is fenced next, and then read again."""

JobArgument = Annotated[Path, typer.Argument(help="The job file.")]
OriginOption = Annotated[
    str | None, typer.Option(help="The region to take over from. Default: CUTWATER_ORIGIN_REGION.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
WaitOption = Annotated[float, typer.Option(min=0, help="Seconds to wait for the promotion; 0 returns at once.")]


@report_errors
def failover(
    job_file: JobArgument,
    origin: OriginOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Take over although the other region seems alive.")
    ] = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = WAIT_S,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Continue the job of a dead region here, from the newest milestone that has arrived.

    Fences the mirror, claims a generation, requests its promotion, and prints a lower bound of the loss. Meanwhile
    start a driver and a commit-signal with CUTWATER_GENERATION set to the printed id. If the command is
    interrupted, run it again. If the other region is alive, this creates a fork, which stays readable there until
    you decide it: see docs/FAILOVER.md before you fail over.

    The state is read from the copied changelog. If compaction there has overtaken the newest arrival, the state is
    read from a snapshot of that arrival in CUTWATER_SNAPSHOTS, which a view of this region takes.

    Exit 2: nothing has arrived, the region was alive a moment ago or has released the job to a third one, 'forks
    decide' kept its line, the newest arrival was made with another job file, or its state, or events after it, are
    not kept here. 4: the store does not answer, a resync is in progress, or the generation was not promoted in
    time (it still will be).

    Examples:  cutwater failover job.yaml --origin us --dry-run  ·  cutwater failover job.yaml --origin us
    """
    settings, job = settings_for(None, bootstrap_servers), load_job(job_file)
    one, steps = _make_failover(settings, job, origin), Steps()
    with steps.step("looking at what has arrived"):
        found = one.read_copies(PATIENCE_S)
        again = one.earlier_claim(found)
        if again is not None:  # that try has fenced the mirror, so its loss counts all that was copied
            found = one.read_copies()
    if again is not None and again.done:
        TakeoverReport(job, found, again.claim).print_report(promoted(settings.cluster, job.name), steps, as_json)
        return
    careful = not force and again is None
    if careful:
        _require_left(settings, found)
    if dry_run:
        _plan(one, settings, job, found, steps, as_json)
        return
    with audit_action(
        FAILOVER, settings, settings.cluster, job.name, found.arrival.origin, {"force": force}
    ) as action:
        if again is None:
            _source(one, settings, job, found)  # fail before the mirror is fenced
            with steps.step("fencing the mirror"):
                one.fence()
                found = one.read_copies()
            if careful:
                _require_left(settings, found, fenced=True)  # the mirror may have copied until it was fenced
        going = _claim(one, settings, job, found, steps)
        action.record_result(f"{going.claim.generation} is {CLAIMED}")
    _await_promotion(going, settings, steps, wait, as_json)


@report_errors
def switchover(
    job_file: JobArgument,
    origin: OriginOption = None,
    dry_run: DryRunOption = False,
    wait: WaitOption = WAIT_S,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Continue the job of a live region here without loss: planned, or back after a failover.

    Releases the job there (unless 'cutwater release' has done so), waits until its last milestone has arrived,
    claims a generation, and requests its promotion. The mirror continues to copy what is still produced there.

    Exit 2, with nothing released: there is no mirror or no milestone, the milestone was made with another job
    file, events after it are deleted here, the regions have no milestone in common, this region has continued
    already and the other one is a fork, 'forks decide' kept the other line, or an earlier claim conflicts. 4: a
    resync is in progress or the mirror is paused (nothing was released), or the milestone did not arrive or the
    promotion did not happen in time: run it again.

    Examples:  cutwater switchover job.yaml --origin us --dry-run  ·  cutwater switchover job.yaml --origin us
    """
    settings, job = settings_for(None, bootstrap_servers), load_job(job_file)
    one, steps = _make_failover(settings, job, origin, lives=True), Steps()
    with steps.step("looking at both regions"):
        found = one.read_copies()
        made = _existing_release(settings, job)
        if made is None:
            newest = promoted(settings.origin_cluster, job.name)
            _require_arrived(found, newest)
            _require_way(one, settings, job, found, newest)
    if dry_run:
        _plan(one, settings, job, found, steps, as_json, to_come=not found.planned)
        return
    with audit_action(SWITCHOVER, settings, settings.cluster, job.name, found.arrival.origin) as action:
        if made is None:
            made = _release_there(settings, job, steps)
        with steps.step("waiting for its last milestone") as status:
            found = _await_arrival(one, made, wait, status)
        again = one.earlier_claim(found)
        if again is not None:  # from an earlier try, or from before the release
            require_current(again, origin_parent(again.claim).token, made.token, released=True)
        done = again is not None and again.done
        going = (
            TakeoverReport(job, found, again.claim) if again and done else _claim(one, settings, job, found, steps)
        )
        action.record_result(f"{going.claim.generation} is {'promoted' if done else CLAIMED}")
    if done:
        going.print_report(promoted(settings.cluster, job.name), steps, as_json)
    else:
        _await_promotion(going, settings, steps, wait, as_json)


@report_errors
def release_(
    job_file: JobArgument,
    to: Annotated[str, typer.Option(help="The region that continues the job.")],
    dry_run: DryRunOption = False,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give the job up in this region so that another one can continue it. Fences driver and commit-signal.

    'cutwater switchover' in the other region does this too, if it may write here. Views keep their state.

    Exit 2: the job has no milestone, or was released to another region, or --to names this region; or a candidate
    was promoted meanwhile: run it again. 4: brokers do not answer. 6: another process has taken over meanwhile.

    Examples:  cutwater release job.yaml --to eu  ·  cutwater release job.yaml --to eu --dry-run
    """
    settings, job = settings_for(None, bootstrap_servers), load_job(job_file)
    found = releasing(settings.cluster, job, settings.region, to, now_ms)
    does = not dry_run
    if does:
        with audit_action(RELEASE, settings, settings.cluster, job.name, to) as action:
            found = release(settings.cluster, job, settings.region, to, now_ms)
            action.record_result(f"after milestone {found.made.token}")
    made, done, given_up = found.made, found.done, [str(one) for one in found.gives_up]
    if as_json:
        told = {"token": str(made.token), "to": made.to, "released": iso(made.at_ms) if done else None}
        print_json({**told, "gives_up": given_up})
        return
    is_ = "is released" if done else "would be released"
    out.print(f"{job.name} {is_} to {made.to} after milestone {made.token}")
    if given_up:
        out.print(f"{'given up' if does else 'would be given up'}: {', '.join(given_up)}")


def _make_failover(settings: Settings, job: Job, origin: str | None, lives: bool = False) -> Failover:
    origin = origin or settings.origin_region
    if not origin:
        raise UsageError("no region to take over from is named: give --origin, or set CUTWATER_ORIGIN_REGION")
    if settings.origin_region and origin != settings.origin_region:
        raise UsageError(
            f"--origin is {origin}, but CUTWATER_ORIGIN_REGION is {settings.origin_region}: name the same region"
        )
    if not job.source:
        raise UsageError(
            f"job {job.name} is attached to a query of your own, and the job file does not name its topic, so no "
            "events are mirrored and it cannot continue in another region. Name it as 'attached.source', with "
            "'merges', in both regions, and restart the mirror (docs/ATTACH.md)"
        )
    require_copy_name(job.source, origin)
    there = settings.origin_cluster if lives else None
    return Failover(settings.cluster, job, settings.region, origin, now_ms, there)


def _require_left(settings: Settings, found: OriginCopies, fenced: bool = False) -> None:
    """Raise UsageError if the origin seems alive, or has released the job to a third region."""
    if found.planned:
        return
    if found.released is not None:
        require_not_given(found.released, settings.region)
    least_ms = round(1000 * settings.failover_min_age_s)
    require_dead(found.arrival.origin, found.heard_ms, now_ms(), least_ms, fenced)


def _require_way(
    one: Failover, settings: Settings, job: Job, found: OriginCopies, newest: Milestone | None
) -> None:
    """Raise if a switchover could not finish: the job would be released, and continue nowhere.

    Raises as `_asked`, `Failover.require_settled` and `require_copying`. `newest`: the origin's newest
    milestone.
    """
    one.require_settled()
    one.require_copying()
    again, _ = _claim_to_use(one, settings, job, found)
    if again is not None and newest is not None:
        require_current(again, origin_parent(again.claim).token, newest.token, released=False)


def _existing_release(settings: Settings, job: Job) -> Release | None:
    """Return the release of the job in the origin, if any. Raises UsageError if it names another region."""
    made = commit_stream.release(settings.origin_cluster, topics.milestones(job.name))
    if made is not None and made.to != settings.region:
        raise UsageError(f"job {job.name} was released to region {made.to}, and this is {settings.region}")
    return made


def _require_arrived(found: OriginCopies, newest: Milestone | None) -> None:
    """Raise UnavailableError if the origin's current generation has no arrival here.

    After the release no other milestone follows. `newest`: the origin's newest milestone.
    """
    if newest is not None and newest.generation != found.arrival.generation:
        raise UnavailableError(
            f"{found.arrival.origin} has gone on to {newest.token}, and {found.arrival.token} is the newest "
            "arrival. Nothing was released: wait for an arrival of that generation, and run this again"
        )


def _source(one: Failover, settings: Settings, job: Job, found: OriginCopies) -> SeedSource | None:
    """Return where the state will be read; None if an earlier try's generation may have read it already."""
    again, claim = _claim_to_use(one, settings, job, found)
    return None if again else seed_source(settings.cluster, job, settings, claim, settings.snapshots)


def _claim_to_use(
    one: Failover, settings: Settings, job: Job, found: OriginCopies
) -> tuple[EarlierClaim | None, Claim]:
    """Return an earlier try's claim, if any, and the claim to use: that one, or a new one.

    Raises as `Failover.claimed` and `plan`, and if the claim's driver would refuse to start.
    """
    again = one.earlier_claim(found)
    claim = again.claim if again else one.plan(found)
    if again is None or not again.done:
        require_continues(settings.cluster, job, settings, claim, new=again is None)
    return again, claim


def _plan(
    one: Failover,
    settings: Settings,
    job: Job,
    found: OriginCopies,
    steps: Steps,
    as_json: bool,
    to_come: bool = False,
) -> None:
    """Print what would be done. `to_come`: whether another milestone must arrive first."""
    again, claim = _claim_to_use(one, settings, job, found)
    source = None if to_come or again else seed_source(settings.cluster, job, settings, claim, settings.snapshots)
    done = again is not None and again.done
    TakeoverReport(job, found, claim, source, to_come and not done).print_report(None, steps, as_json)


def _release_there(settings: Settings, job: Job, steps: Steps) -> Release:
    """Release the job in the origin, whose audit log has a record of it, too."""
    there = settings.origin_cluster
    with steps.step("releasing it there"), audit_action(RELEASE, settings, there, job.name, settings.region):
        return release(there, job, settings.origin, settings.region, now_ms).made


def _claim(one: Failover, settings: Settings, job: Job, found: OriginCopies, steps: Steps) -> TakeoverReport:
    """Claim a generation and request its promotion."""
    source = _source(one, settings, job, found)
    copies = copies_of(settings.cluster, settings.replication_factor, settings.min_insync_replicas)
    with steps.step("making topics"):
        one.prepare(copies)
    with steps.step("claiming a generation"):
        claim = one.claim(found, copies)
        one.claims.promote(claim.generation)
    return TakeoverReport(job, found, claim, source)


def _await_promotion(
    going: TakeoverReport, settings: Settings, steps: Steps, wait_s: float, as_json: bool
) -> None:
    job, claim = going.job, going.claim
    if not as_json:
        out.print(f"{claim.generation} is claimed: start its driver and commit-signal")
        going.print_parent()
    first = None
    try:
        with steps.step("promoting it") as status:
            first = await_first_milestone(settings.cluster, job.name, claim, wait_s, status)
    finally:
        going.print_result(first, steps, as_json)  # prints the loss as JSON even if no driver is started


def _await_arrival(one: Failover, made: Release, wait_s: float, status: WaitStatus) -> OriginCopies:
    begun = time.monotonic()
    while (arrival := one.arrival()) is None or arrival.token != made.token or one.released() is None:
        newest, now = arrival.token if arrival else "none", time.monotonic()
        status.update(f"waiting for {made.token}, for {now - begun:.0f} s: {newest} has arrived")
        if now > begun + wait_s:
            one.require_settled()
            raise UnavailableError(
                f"{made.token} has not arrived: the newest is {newest}. Check with 'cutwater regions' that the "
                "mirror runs, and run this again. To undo the release, run 'cutwater generation start' there"
            )
        time.sleep(LOOK_S)
    return one.read_copies()


def register(app: typer.Typer) -> None:
    app.command("failover")(failover)
    app.command("switchover")(switchover)
    app.command("release")(release_)
