"""`failover`, `switchover`, `release`: a job goes on in another region."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.claiming import copies_of
from cutwater.adapters.failing_over import FailingOver, Found, release
from cutwater.adapters.generations import candidates, promoted
from cutwater.adapters.jobfile import load_job
from cutwater.adapters.process import now_ms
from cutwater.adapters.settings import Settings
from cutwater.cli.options import BootstrapOption, JsonOption, settings_for
from cutwater.cli.output import err, handled, iso, out, print_json
from cutwater.core.candidates import delayed
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.failover import require_dead
from cutwater.core.job import Job
from cutwater.core.records import Claim, Milestone, Release

LOOK_S = 0.5
WAIT_S = 600.0

JobArgument = Annotated[Path, typer.Argument(help="The job file.")]
OriginOption = Annotated[str | None, typer.Option(help="The region to go on from; else CUTWATER_ORIGIN_REGION.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
WaitOption = Annotated[float, typer.Option(min=0, help="Seconds to wait for the promotion; 0 returns at once.")]


class Steps:
    """What was done, and how long each step took, in seconds."""

    def __init__(self) -> None:
        self.took: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[Any]:
        began = time.monotonic()
        with err.status(name) as status:
            yield status
        self.took[name] = round(time.monotonic() - began, 3)


@handled
def failover(
    job_file: JobArgument,
    origin: OriginOption = None,
    force: Annotated[bool, typer.Option("--force", help="Although the other region was alive just now.")] = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = WAIT_S,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on here with the job of a region that is dead, from the newest milestone that has arrived.

    Fences the mirror, claims a generation, and asks for its promotion; tells what is known to be lost, as a lower
    bound. A driver and a commit-signal with CUTWATER_GENERATION set to the id that it prints do the work: start
    them meanwhile. Broken off, run it again. While the other region lives this makes a fork, which stays readable
    there and is decided by you: docs/FAILOVER.md says when not to.

    Exit 2: nothing has arrived, or the region was alive a moment ago. 4: not promoted in time; it still will be.

    Examples:  cutwater failover job.yaml --origin us --dry-run  ·  cutwater failover job.yaml --origin us
    """
    settings, job = settings_for(None, bootstrap_servers), load_job(job_file)
    one, steps = _failing_over(settings, job, origin), Steps()
    with steps.step("looking at what has arrived"):
        found = one.look()
        again = one.claimed(found)
    if not force and not found.planned and again is None:
        require_dead(found.newest, now_ms(), round(1000 * settings.failover_min_age_s))
    if dry_run:
        _tell(found, again or one.plan(found), None, steps, as_json)
        return
    if again is None:
        with steps.step("fencing the mirror"):
            one.fence()
            found = one.look()
    _go_on(one, settings, job, found, steps, wait, as_json)


@handled
def switchover(
    job_file: JobArgument,
    origin: OriginOption = None,
    dry_run: DryRunOption = False,
    wait: WaitOption = WAIT_S,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on here with the job of a region that lives, and lose nothing: planned, or back after a failover.

    Releases the job there (unless 'cutwater release' has), waits until its last milestone has arrived, claims a
    generation, and asks for its promotion. The mirror goes on meanwhile, and brings what is still produced there.

    Exit 2: there is no mirror, or no milestone. 4: not arrived, or not promoted, in time; run it again.

    Examples:  cutwater switchover job.yaml --origin us --dry-run  ·  cutwater switchover job.yaml --origin us
    """
    settings, job = settings_for(None, bootstrap_servers), load_job(job_file)
    one, steps = _failing_over(settings, job, origin), Steps()
    found = one.look()
    again = one.claimed(found)
    if dry_run:
        _tell(found, again or one.plan(found), None, steps, as_json)
        return
    if again is None:
        with steps.step("releasing it there"):
            made = release(settings.origin_cluster, job.name, settings.region, now_ms())
        with steps.step("waiting for its last milestone") as status:
            found = _await_arrival(one, made, wait, status)
    _go_on(one, settings, job, found, steps, wait, as_json)


@handled
def release_(
    job_file: JobArgument,
    to: Annotated[str, typer.Option(help="The region that is to go on.")],
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give the job up in this region, for another one that goes on: its driver and commit-signal are fenced.

    'cutwater switchover' in the other region does this too, where it may write here. Views keep what they show.

    Exit 2: the job has no milestone.

    Examples:  cutwater release job.yaml --to eu  ·  cutwater release job.yaml --to eu --json
    """
    settings, job = settings_for(None, bootstrap_servers), load_job(job_file)
    made = release(settings.cluster, job.name, to, now_ms())
    if as_json:
        print_json({"token": str(made.token), "to": made.to, "released": iso(made.at_ms)})
    else:
        out.print(f"{job.name} is released to {made.to} behind milestone {made.token}", highlight=False)


def _failing_over(settings: Settings, job: Job, origin: str | None) -> FailingOver:
    origin = origin or settings.origin_region
    if not origin:
        raise UsageError("from which region? Give --origin, or set CUTWATER_ORIGIN_REGION")
    if not job.topic:
        raise UsageError(f"job {job.name} is attached to a query of your own, whose sources nobody copies")
    return FailingOver(settings.cluster, job, settings.region, origin, now_ms)


def _go_on(
    one: FailingOver, settings: Settings, job: Job, found: Found, steps: Steps, wait_s: float, as_json: bool
) -> None:
    copies = copies_of(settings.cluster, settings.replication_factor, settings.min_insync_replicas)
    with steps.step("making topics"):
        one.prepare(copies)
    with steps.step("claiming a generation"):
        claim = one.claim(found, copies)
        one.claims.promote(claim.generation)
    if not as_json:
        out.print(f"{claim.generation} is claimed: start its driver and commit-signal", highlight=False)
    with steps.step("promoting it") as status:
        first = _await_promotion(settings, job, claim, wait_s, status)
    _tell(found, claim, first, steps, as_json)


def _await_arrival(one: FailingOver, made: Release, wait_s: float, status: Any) -> Found:
    deadline = time.monotonic() + wait_s
    while True:
        found = one.look()
        if found.planned:
            return found
        status.update(f"waiting for {made.token}: {found.arrival.token} has arrived")
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"{made.token} has not arrived: {found.arrival.token} is the newest. Does the mirror run? "
                "'cutwater regions' shows how far it is; then run this again"
            )
        time.sleep(LOOK_S)


def _await_promotion(settings: Settings, job: Job, claim: Claim, wait_s: float, status: Any) -> Milestone | None:
    """The first promoted milestone; None where nobody waits for it. Raises UnavailableError after the time."""
    deadline = time.monotonic() + wait_s
    while True:
        last = promoted(settings.cluster, job.name)
        if last is not None and last.generation == claim.generation:
            return last
        candidate = candidates(settings.cluster, job.name).require(claim.generation)
        if candidate.withdrawn is not None:
            raise UsageError(f"{claim.generation} was given up: {candidate.withdrawn}")
        if wait_s == 0:
            return None
        why = delayed(candidate.newest, claim, last) or "its commit-signal has not done it yet"
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"{claim.generation} is not promoted yet: {why}. Do its driver and commit-signal run?"
            )
        status.update(f"promoting {claim.generation}: {why}")
        time.sleep(LOOK_S)


def _tell(found: Found, claim: Claim, first: Milestone | None, steps: Steps, as_json: bool) -> None:
    loss = found.loss
    told = {
        "generation": str(claim.generation),
        "parent": str(found.arrival.token),
        "first": str(first.token) if first else None,
        "rewinds_to": claim.rewinds_to,
        "planned": found.planned,
        "loss": {
            "milestones": loss.milestones,
            "newest": str(loss.newest),
            "offsets": loss.offsets,
            "as_of": iso(loss.as_of_ms),
        },
        "steps": steps.took,
    }
    if as_json:
        print_json(told)
        return
    out.print(f"{claim.generation} goes on from {found.arrival.token}", highlight=False)
    if found.planned:
        out.print("nothing is lost: the job was released behind that milestone")
    else:
        out.print(
            f"lost at least, as of {iso(loss.as_of_ms)}: {loss.milestones} milestones behind it (up to "
            f"{loss.newest}), and {loss.offsets} offsets of events that they had read",
            highlight=False,
        )
    if first is not None:
        out.print(f"promoted with {first.token}", highlight=False)
    for name, took in steps.took.items():
        out.print(f"  {name}: {took:.1f} s", highlight=False)


def register(app: typer.Typer) -> None:
    app.command("failover")(failover)
    app.command("switchover")(switchover)
    app.command("release")(release_)
