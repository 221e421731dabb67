"""The wait for readers that load a candidate ahead, before its promotion is requested."""

from __future__ import annotations

import time
from typing import Any

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import candidates, parent_of, promoted
from cutwater.adapters.topics.recovery_log import reader_loads
from cutwater.cli.options import JobContext
from cutwater.cli.report import err, print_note
from cutwater.core.errors import ProtocolError, UnavailableError, UsageError
from cutwater.core.generations.candidates import Candidate
from cutwater.core.generations.holds import may_be_held
from cutwater.core.pacing.reader_loads import ReaderLoad, all_announced, unfinished
from cutwater.core.pacing.schedules import closed_text
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.bulk_load import BULK_RECORDS

LOOK_S = 0.5
SILENT_S = 10.0
"""The time until readers that say nothing load nothing: they may be of an earlier version, or not allowed to."""


def await_readers(place: JobContext, generation: Generation, wait_s: float) -> None:
    """Wait until every reader that loads a candidate has its rows, at most `wait_s`. A candidate that is promoted,
    given up, of a rollback or outside of its windows is not waited for, nor one with few rows."""
    began_s, seen_s = time.monotonic(), 0.0
    loads: list[ReaderLoad] = []
    with err.status(f"readers load {generation}") as status:
        while (now_s := time.monotonic()) < began_s + wait_s:
            candidate = candidates(place.cluster, place.job.name).require(generation)
            if not _worth_waiting(place, candidate):
                return
            if candidate.newest is not None:
                seen_s = seen_s or now_s
                loads = _loads(place, generation)
                if loads and not unfinished(loads) and all_announced(loads, now_ms()):
                    return
                if not loads and now_s > seen_s + SILENT_S:
                    return
            names = ", ".join(one.name for one in unfinished(loads)) or "none has begun"
            status.update(f"readers load {generation}, for {now_s - began_s:.0f} s: {names}")
            time.sleep(LOOK_S)
    for one in unfinished(loads):
        print_note(f"{one.name} has not loaded {generation} in {wait_s:.0f} s: it reads the rest at the promotion")


def loads_json(place: JobContext, candidate: Candidate) -> list[dict[str, Any]]:
    """Return what readers have last said of their loads of a candidate."""
    if candidate.newest is None or not candidate.open:
        return []
    return [
        {"reader": one.reader, "process": one.process, "state": one.state, "epoch": one.epoch}
        for one in _loads(place, candidate.claim.generation)
    ]


def _worth_waiting(place: JobContext, candidate: Candidate) -> bool:
    if not candidate.open or not may_be_held(candidate.claim):
        return False
    last = promoted(place.cluster, place.job.name)
    if last is not None and last.generation.number >= candidate.claim.generation.number:
        return False
    if closed_text(candidate, now_ms()):
        return False
    rows_of = candidate.newest or parent_of(candidate.claim)
    return sum(end for _, end in rows_of.changelog_cut) >= BULK_RECORDS


def _loads(place: JobContext, generation: Generation) -> list[ReaderLoad]:
    try:
        return reader_loads(place.cluster, place.job.name, generation)
    except (UsageError, UnavailableError, ProtocolError):
        return []  # no trail, not allowed to read it, no answer: the promotion does not depend on it
