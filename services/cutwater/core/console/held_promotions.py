"""The promotions that are held now, with who holds them, why and until when."""

from __future__ import annotations

from typing import Any

from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.generations.holds import active_hold, end_ms
from cutwater.core.protocol.generation import Generation


def held_promotions(known: Candidates, current: Generation | None, now_ms: int) -> list[dict[str, Any]]:
    """Return the candidates after `current` whose promotion is held, oldest first."""
    behind = current.number if current else 0
    return [
        {"generation": str(generation), "requested": one.promoting, **hold}
        for generation, one in known.by_id.items()
        if generation.number > behind and (hold := hold_of(one, now_ms))
    ]


def hold_of(candidate: Candidate, now_ms: int) -> dict[str, Any] | None:
    """Return the hold of one candidate; None if it is not held."""
    hold = active_hold(candidate, now_ms)
    if hold is None:
        return None
    return {"by": hold.by, "reason": hold.reason, "since_ms": hold.at_ms, "until_ms": end_ms(hold)}
