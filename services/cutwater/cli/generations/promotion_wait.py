"""The wait for a promotion, with what it waits for, rate and time left."""

from __future__ import annotations

import time

from cutwater.adapters.topics.candidates import parent_of, promoted
from cutwater.cli.generations.claim import claims_of
from cutwater.cli.options import JobContext
from cutwater.cli.report import err, print_note
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations.candidates import Candidate, promotion_delay
from cutwater.core.generations.catch_up import approach
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

LOOK_S = 0.5
SAY_S = 5.0
"""Least time between lines on an output without a status line."""


def print_promotion_plan(place: JobContext, generation: Generation) -> None:
    """Print what `promote` would do, after the same checks. Raises as `promote`."""
    last = promoted(place.cluster, place.job.name)
    if claims_of(place).to_promote(generation):
        print_note(f"the promotion of {generation} would be requested")
    elif last is not None and last.generation == generation:
        print_note(f"{generation} is promoted already")
    else:
        print_note(f"the promotion of {generation} is requested already")


def await_promotion(place: JobContext, generation: Generation, wait_s: float) -> None:
    """Wait for a promotion and report the progress. Raises UnavailableError after `wait_s`."""
    begun = time.monotonic()
    said_s, waited = begun, False
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
            if now > begun + wait_s:
                raise UnavailableError(
                    f"{generation} is not promoted yet: {why or 'its commit-signal has not done it; does it run?'}"
                )
            line = f"promoting {generation}, for {now - begun:.0f} s: {_waits_for(candidate, why)}"
            status.update(line)
            if err.plain and (not waited or now - said_s >= SAY_S):
                said_s, waited = now, True
                print_note(line)
            time.sleep(LOOK_S)
    back = f", and continues from the state of {last.rewinds_to}" if last.rewinds_to else ""
    print_note(f"{generation} is promoted after {time.monotonic() - begun:.0f} s: {last.token}{back}")


def delay_with_eta(one: Candidate, last: Milestone) -> str | None:
    """Return why a candidate cannot be promoted yet, with the time left if its rate is known."""
    why, nearer = promotion_delay(one.newest, one.claim, last), approach(one, parent_of(one.claim), last)
    return f"{why}; {nearer}" if why and nearer else why


def _waits_for(one: Candidate, why: str | None) -> str:
    if one.newest is None:
        return (
            f"{why}: its driver starts Spark and takes over the state of {parent_of(one.claim).token}; its log "
            "has rate and time left"
        )
    return why or "it has caught up, and its commit-signal takes over"
