"""Generations as rows: what `generation list` and the other verbs print of them."""

from __future__ import annotations

from typing import Any

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import parent_of, promoted
from cutwater.cli.generations.hold import hold_json
from cutwater.cli.generations.promotion_wait import delay_with_eta
from cutwater.cli.generations.reader_wait import loads_json
from cutwater.cli.generations.schedule import schedule_json
from cutwater.cli.options import JobContext
from cutwater.cli.report import iso, print_records
from cutwater.core.generations.candidates import Candidate
from cutwater.core.generations.holds import active_hold, hold_text
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.pacing.catch_up import approach, forecast_s
from cutwater.core.pacing.schedules import UNBOUND, bounds_of, closed_text
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Hold, Milestone
from cutwater.core.util.text_tables import Column

_COLUMNS = (
    *(Column("generation"), Column("state"), Column("from"), Column("partitions", 1), Column("claimed", 2)),
    *(Column("reason", below=True), Column("behind", below=True)),
)


def show_generations(
    place: JobContext, found: list[Candidate], as_json: bool, unclaimed: dict[Generation, int] | None = None
) -> None:
    """Print generations. `unclaimed`: those without a claim, with their number of partitions."""
    last = promoted(place.cluster, place.job.name)
    told = [_unclaimed(*one, last) for one in (unclaimed or {}).items()] + [
        _generation_json(place, one, last, as_json) for one in found
    ]
    print_records(f"generations of {place.job.name}: {len(found)} claimed", _COLUMNS, told, as_json)


def first_generations(found: list[Candidate], last: Milestone | None) -> dict[Generation, int]:
    """Return the first generations, of this job and of mirrored regions, that claims and milestones name."""
    told = [parent_of(one.claim) for one in found] + ([last] if last else [])
    return {one.generation: len(one.changelog_cut) for one in told if not is_claimed(one.generation)}


def _unclaimed(generation: Generation, partitions: int, last: Milestone | None) -> dict[str, Any]:
    at_work = last is not None and last.generation == generation
    nothing = dict.fromkeys(
        ("from", "claimed", "epoch", "behind", "hold", "schedule", "events_left", "events_per_s", "seconds_left")
    )
    return {
        **nothing,
        "loads": [],
        "generation": str(generation),
        "state": "promoted" if at_work else "past",
        "partitions": partitions,
        "rewinds_to": 0,
        "reason": "the job's first one",
    }


def _generation_json(place: JobContext, one: Candidate, last: Milestone | None, loads: bool) -> dict[str, Any]:
    """`loads`: whether to read what readers say; the table has no column for it."""
    claim = one.claim
    follows = last if last and last.generation.number < claim.generation.number else None
    nearer = approach(one, parent_of(claim), follows) if follows else None
    hold, bounds = (active_hold(one, now_ms()), bounds_of(one)) if follows else (None, UNBOUND)
    left_s = forecast_s(nearer, bounds.windows, now_ms()) if nearer else None
    return {
        "generation": str(claim.generation),
        "state": _state(one, last),
        "from": str(parent_of(claim).token),
        "partitions": claim.partitions,
        "rewinds_to": claim.rewinds_to,
        "claimed": iso(claim.at_ms),
        "reason": one.withdrawn if one.withdrawn is not None else claim.reason,
        "epoch": one.newest.epoch if one.newest else None,
        "behind": _behind(one, follows, hold),
        "hold": hold_json(hold),
        "schedule": schedule_json(bounds, now_ms()),
        "events_left": nearer.events if nearer else None,
        "events_per_s": round(nearer.reads_per_s, 1) if nearer else None,
        "seconds_left": round(left_s, 1) if left_s is not None else None,
        "loads": loads_json(place, one) if follows and loads else [],
    }


def _behind(one: Candidate, follows: Milestone | None, hold: Hold | None) -> str | None:
    why = delay_with_eta(one, follows) if follows else None
    held = hold_text(hold) if hold else None
    closed = closed_text(one, now_ms()) if follows else None
    return "; ".join(text for text in (held, closed, why) if text) or None


def _state(one: Candidate, last: Milestone | None) -> str:
    number = one.claim.generation.number
    if last is not None and last.generation == one.claim.generation:
        return "promoted"
    if not one.open:
        return "given up"
    if last is not None and last.generation.number > number:
        return "past"  # promoted earlier, or overtaken by a later generation
    return "promoting" if one.promoting else "candidate"
