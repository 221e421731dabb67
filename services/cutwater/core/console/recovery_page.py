"""The recovery trail, and the milestones that can be restored, as contiguous ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.recovery_log import Recovery, select_starts
from cutwater.core.state.point_in_time_restore import RestorableSnapshot

STARTS_MAX = 200
RANGES_MAX = 500
NO_TRAIL = "No start of a service is recorded on the recovery trail yet."
NOT_RESTORABLE = "No milestone of this generation can be restored now; the next milestone will be."


def trail(records: Sequence[Recovery], many: int = STARTS_MAX) -> list[dict[str, Any]]:
    """Return the newest starts, newest first."""
    return [_start(one) for one in reversed(select_starts(records, None, None)[-many:])] if many else []


def _start(one: Recovery) -> dict[str, Any]:
    return {
        "begun_ms": one.begun_ms,
        "took_ms": one.took_ms,
        "service": one.service,
        "process": one.process,
        "generation": str(one.generation),
        "attempt": one.attempt or None,
        "outcome": one.outcome,
        "decision": one.decision,
        "found": [fact._asdict() for fact in one.found],
        "steps": [step._asdict() for step in one.steps],
    }


def ranges(milestones: Iterable[Milestone], many: int = RANGES_MAX) -> list[dict[str, Any]]:
    """Return restorable milestones as the newest `many` ranges without gaps, oldest first."""
    found: list[list[Milestone]] = []
    for one in milestones:
        last = found[-1][-1] if found else None
        if last and one.sequence == last.sequence + 1 and one.generation == last.generation:
            found[-1][1:] = [one]
        else:
            found.append([one])
    return [
        {
            "first": str(one[0].token),
            "last": str(one[-1].token),
            "milestones": one[-1].sequence - one[0].sequence + 1,
            "from_ms": one[0].committed_ms,
            "to_ms": one[-1].committed_ms,
        }
        for one in found[-many:]
    ]


def snapshots(found: Iterable[RestorableSnapshot]) -> list[dict[str, Any]]:
    """Return the snapshots, newest first; of those of one milestone the first."""
    by_token = {str(one.milestone.token): one for one in reversed(list(found))}
    ordered = sorted(by_token.items(), key=lambda each: -each[1].milestone.sequence)
    return [
        {
            "token": token,
            "committed_ms": one.milestone.committed_ms,
            "files": one.files,
            "bytes": one.bytes,
            "lower_ms": one.lower_ms,
        }
        for token, one in ordered[:RANGES_MAX]
    ]
