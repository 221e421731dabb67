"""The wait for a promotion, with what it waits for, rate and time left."""

from __future__ import annotations

import time

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.terminal import WaitStatus
from cutwater.adapters.topics.candidates import candidates, origin_parent, parent_of, promoted
from cutwater.cli.generations.claim import claims_of
from cutwater.cli.options import JobContext
from cutwater.cli.report import err, print_note
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.failover.failover import origin_claim
from cutwater.core.generations.candidates import Candidate, promotion_delay
from cutwater.core.pacing.catch_up import approach, approach_text
from cutwater.core.pacing.schedules import bounds_of, closed_text
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone

LOOK_S = 1.0
"""Each look reads three topics, while readers wait for the cores."""


def print_promotion_plan(place: JobContext, generation: Generation, despite_hold: bool = False) -> None:
    """Print what `promote` would do, after the same checks. Raises as `promote`."""
    last = promoted(place.cluster, place.job.name)
    if claims_of(place).to_promote(generation, despite_hold):
        print_note(f"the promotion of {generation} would be requested")
    elif last is not None and last.generation == generation:
        print_note(f"{generation} is promoted already")
    else:
        print_note(f"the promotion of {generation} is requested already")


def await_promotion(place: JobContext, generation: Generation, wait_s: float) -> None:
    """Wait for a promotion and report the progress. Raises UnavailableError after `wait_s`."""
    begun = time.monotonic()
    with err.status(f"promoting {generation}") as status:
        while (last := promoted(place.cluster, place.job.name)) is None or last.generation != generation:
            candidate = claims_of(place).known().require(generation)
            why = delay_with_eta(candidate, last) if last else "there is no milestone"
            if candidate.withdrawn is not None:
                raise UsageError(f"{generation} was given up: {candidate.withdrawn}")
            if last is not None and last.generation.number > generation.number:
                raise UsageError(
                    f"{last.token} is of a later generation, which was promoted: {generation} is past"
                )
            if wait_s == 0:
                print_note(f"{generation} is promoted when it has caught up: see 'cutwater generation list'")
                return
            now = time.monotonic()
            if closed := _closed_until(candidate, begun + wait_s - now):
                raise UnavailableError(f"{generation} is not promoted yet: {closed}. It will be then")
            if now > begun + wait_s:
                raise UnavailableError(
                    f"{generation} is not promoted yet: {why or 'its commit-signal has not done it; does it run?'}"
                )
            status.update(f"promoting {generation}, for {now - begun:.0f} s: {_waits_for(candidate, why)}")
            time.sleep(LOOK_S)
    back = f", and continues from the state of {last.rewinds_to}" if last.rewinds_to else ""
    print_note(f"{generation} is promoted after {time.monotonic() - begun:.0f} s: {last.token}{back}")


def await_first_milestone(
    cluster: Cluster, job: str, claim: Claim, wait_s: float, status: WaitStatus
) -> Milestone | None:
    """Wait for the promotion of a claim on another region's line, and return the newest milestone.

    Returns None if `wait_s` is 0. Raises UnavailableError after `wait_s`, UsageError if the claim is past.
    """
    begun = time.monotonic()
    while True:
        last = promoted(cluster, job)
        known = candidates(cluster, job)
        if last is not None and last.generation.number >= claim.generation.number:
            if origin_claim(known, last.generation, origin_parent) != claim:
                raise UsageError(
                    f"{last.token} is of another line, which was promoted: {claim.generation} is past"
                )
            return last
        candidate = known.require(claim.generation)
        if candidate.withdrawn is not None:
            raise UsageError(f"{claim.generation} was given up: {candidate.withdrawn}")
        if wait_s == 0:
            return None
        why = delay_with_eta(candidate, last)
        now = time.monotonic()
        if now > begun + wait_s:
            raise UnavailableError(
                f"{claim.generation} is not promoted yet: {why or 'its commit-signal has not done it'}. Do its "
                "driver and commit-signal run?"
            )
        status.update(f"promoting {claim.generation}, for {now - begun:.0f} s: {_waits_for(candidate, why)}")
        time.sleep(LOOK_S)


def delay_with_eta(one: Candidate, last: Milestone | None) -> str | None:
    """Return why a candidate cannot be promoted yet, with the time left if its rate is known."""
    why = promotion_delay(one.newest, one.claim, last)
    nearer = approach(one, parent_of(one.claim), last) if last else None
    if not why or nearer is None:
        return why
    command = f"cutwater generation schedule {one.claim.generation}"
    return f"{why}; {approach_text(nearer, bounds_of(one), command, now_ms())}"


def _closed_until(one: Candidate, wait_s: float) -> str:
    """Return that the candidate's next window opens only after `wait_s`; empty if it is open or opens earlier."""
    at_ms = now_ms()
    if not (closed := closed_text(one, at_ms)):
        return ""
    opens_ms = bounds_of(one).windows.next_change_ms(at_ms)
    return closed if opens_ms is None or opens_ms - at_ms > 1_000 * wait_s else ""


def _waits_for(one: Candidate, why: str | None) -> str:
    if one.newest is None:
        return (
            f"{why}: its driver starts Spark and takes over the state of {parent_of(one.claim).token}; its log "
            "has rate and time left"
        )
    return why or "it has caught up, and its commit-signal takes over"
