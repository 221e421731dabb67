"""A canary as a table and as JSON, and the wait for its gate."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from cutwater.adapters.topics.candidates import candidates, parent_of, promoted
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.cli.options import JobContext
from cutwater.cli.report import err, iso, out, print_note
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.job.job import Job
from cutwater.core.past.milestone_point import MilestonePoint
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Canary, Milestone
from cutwater.core.util.text_tables import Column, table

LOOK_S = 0.5
_ROWS = (Column("key"), Column("window from"), Column("to", 1), Column("how", below=True))


class NamedCanary(NamedTuple):
    candidate: Candidate
    canary: Canary
    last: Milestone | None
    """The newest milestone of the commit stream."""
    way_back: Candidate | None = None
    """The old generation, if it keeps counting."""

    @property
    def generation(self) -> Generation:
        return self.candidate.claim.generation

    @property
    def state(self) -> str:
        last, number = self.last, self.generation.number
        if not self.candidate.open:
            return "given up"
        if last is not None and last.generation == self.generation:
            return "promoted"
        if last is not None and last.generation.number > number:
            return "past"
        if self.candidate.promoting:
            return "promoting"
        return "comparing" if self.candidate.comparison else "starting"

    def points(self) -> tuple[MilestonePoint, MilestonePoint]:
        """Return the two milestones of the last pair. Raises UsageError if there is none yet."""
        live, theirs = self.pair
        if live is None or theirs is None:
            raise UsageError(f"no milestone of {self.generation} is compared yet: wait for the first one")
        return MilestonePoint(token=live), MilestonePoint(token=theirs)

    @property
    def pair(self) -> tuple[Token | None, Token | None]:
        """The tokens of the last pair. That of the candidate has a number of its own."""
        found = self.candidate.comparison
        if found is None:
            return None, None
        live = Token(parent_of(self.candidate.claim).generation, found.sequence)
        return live, Token(self.generation, found.number)

    def jobs(self, place: JobContext) -> tuple[Job, ...]:
        """Return the jobs of both generations."""
        jobs = GenerationJobs.on(place.cluster, place.job)
        return jobs.at(parent_of(self.candidate.claim)), jobs.of_candidate(self.candidate)


def find_canary(place: JobContext, generation: str | None) -> NamedCanary:
    """Return the named canary, or the newest one. Raises UsageError if there is none."""
    known = candidates(place.cluster, place.job.name)
    last = promoted(place.cluster, place.job.name)
    if generation is not None:
        found = known.require(Generation.parse(generation))
    else:
        every = [one for one in known.by_id.values() if one.canary is not None]
        if not every:
            raise UsageError(f"{place.job.name} has no canary: 'cutwater canary start' starts one")
        found = every[-1]
    if found.canary is None:
        raise UsageError(f"{found.claim.generation} is no canary: see 'cutwater generation list'")
    return NamedCanary(found, found.canary, last, _way_back(known, found, last))


def _way_back(known: Candidates, canary: Candidate, last: Milestone | None) -> Candidate | None:
    """Return the open rollback to the generation before a promoted canary."""
    claim = canary.claim
    if last is None or last.generation != claim.generation:
        return None
    before = parent_of(claim).generation
    found = [
        one
        for generation, one in known.by_id.items()
        if one.open and generation.number > claim.generation.number and one.claim.rewinds_to
    ]
    return next((one for one in reversed(found) if parent_of(one.claim).generation == before), None)


def await_verdict(place: JobContext, generation: Generation, wait_s: float) -> None:
    """Wait until a canary is promoted or given up. Raises UnavailableError after `wait_s`."""
    deadline_s = time.monotonic() + wait_s
    with err.status(f"comparing {generation}") as status:
        while (found := find_canary(place, str(generation))).state not in ("promoted", "given up", "past"):
            if time.monotonic() > deadline_s:
                raise UnavailableError(
                    f"{generation} is {found.state}: {_progress(found)}. It goes on: see 'cutwater canary status'"
                )
            status.update(f"{generation} is {found.state}: {_progress(found)}")
            time.sleep(LOOK_S)


def _progress(found: NamedCanary) -> str:
    one, gate = found.candidate.comparison, found.canary
    if one is None:
        return "no milestone is compared yet"
    of = f" of {gate.milestones:,}" if gate.milestones else ""
    return f"{one.compared:,}{of} milestones compared, {one.differing:,} rows differ"


def canary_json(found: NamedCanary) -> dict[str, Any]:
    one, gate = found.candidate.comparison, found.canary
    live, theirs = found.pair
    return {
        "generation": str(found.generation),
        "state": found.state,
        "parent": str(parent_of(found.candidate.claim).token),
        "gate": {"milestones": gate.milestones, "differences": gate.differences, "tolerance": gate.tolerance},
        "keep_ms": gate.keep_ms,
        "compared": one.compared if one else 0,
        "rows": one.rows if one else 0,
        "unpaired": one.unpaired if one else 0,
        "passed": one.passed if one else 0,
        "differing": one.differing if one else 0,
        "late": one.late if one else 0,
        "late_until": iso(one.late_until_ms) if one and one.late_until_ms else None,
        "live": str(live) if live else None,
        "candidate": str(theirs) if theirs else None,
        "at": iso(one.at_ms) if one else None,
        "way_back": _way_back_json(found.way_back),
        "verdict": (one.verdict or None) if one else None,
        "reason": found.candidate.withdrawn or (one.reason if one and one.reason else None),
        "differences": [
            {"key": row.key, "window_start": iso(row.start_ms), "window_end": iso(row.end_ms), "text": row.text}
            for row in (one.first if one else ())
        ],
    }


def _way_back_json(kept: Candidate | None) -> dict[str, Any] | None:
    if kept is None:
        return None
    to, generation = parent_of(kept.claim).token, kept.claim.generation
    return {"to": str(to), "generation": str(generation), "ready": kept.newest is not None}


def print_canary(found: NamedCanary) -> None:
    one, gate = found.candidate.comparison, found.canary
    parent = parent_of(found.candidate.claim).token
    out.print(f"{found.generation} is {found.state}: from {parent}; {_progress(found)}")
    if gate.milestones:
        out.print(
            f"its gate promotes after {gate.milestones:,} compared milestones, and drops at more than "
            f"{gate.differences:,} differing rows"
        )
    if found.way_back is not None:
        ready = "the old generation counts on" if found.way_back.newest else "the old generation is starting"
        to = parent_of(found.way_back.claim).token
        out.print(f"{ready}, until {iso(found.way_back.claim.at_ms + gate.keep_ms)}. To go back to it:")
        out.print(f"cutwater rollback --to {to}")
    if one is None:
        return
    live, theirs = found.pair
    out.print(f"compared last: {live} and epoch {one.epoch} ({theirs}); {one.rows:,} changed rows so far")
    if one.verdict:
        out.print(f"verdict: {one.verdict}: {one.reason}")
    if one.first:
        rows = [(row.key, iso(row.start_ms), iso(row.end_ms), row.text) for row in one.first]
        out.table(table(f"rows that differ: {len(rows):,} of {one.differing:,}", _ROWS, rows))
    for note in _not_compared(found):
        print_note(note)


def _not_compared(found: NamedCanary) -> list[str]:
    one, notes = found.candidate.comparison, list[str]()
    if one is None:
        return notes
    if one.unpaired:
        notes.append(f"{one.unpaired:,} of its milestones were not compared: none of the same events")
    if one.passed:
        notes.append(f"{one.passed:,} milestones of the promoted generation were not compared: it read past them")
    if one.late:
        notes.append(
            f"{one.late:,} more rows differ, of windows that end by {iso(one.late_until_ms)}: they were closed "
            "when the two listed different late events, so they do not count"
        )
    return notes
