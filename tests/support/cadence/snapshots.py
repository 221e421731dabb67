"""A simulated view whose snapshots are taken at a fixed interval, or at that of the controller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.cadence.decisions import Decision
from cutwater.core.cadence.snapshot_cadence import SnapshotCadence

START_S, FETCH_S, REPLAY_ROWS_PER_S = 4.0, 3.0, 150_000.0
SNAPSHOT_S, ROW_S = 2.0, 1e-6
"""What a snapshot costs, and each of the rows since the one before."""
EVERY_MS = 600_000


@dataclass(frozen=True)
class Rows:
    """Of a view: so many rows come, a milestone each second."""

    name: str
    recovery_ms: int
    rows_per_s: Callable[[float], float]
    lasts_s: int = 14_400


class Taken(NamedTuple):
    recovery_s: float
    """The worst one of all moments."""
    cost_s: float
    decisions: tuple[Decision, ...] = ()


def taken(rows: Rows, every_s: float | None) -> Taken:
    """Play the view at this interval; None for the controller's."""
    cadence = SnapshotCadence(rows.recovery_ms, EVERY_MS)
    decisions, since, last_s, cost_s, worst_s = [cadence.begin()], 0.0, 0.0, 0.0, 0.0
    cadence.fetched(FETCH_S)
    for at_s in range(1, rows.lasts_s):
        came = rows.rows_per_s(at_s)
        since += came
        decision = cadence.applied(int(came), came / REPLAY_ROWS_PER_S, at_s)
        decisions += [decision] if decision else []
        worst_s = max(worst_s, START_S + FETCH_S + since / REPLAY_ROWS_PER_S)
        if at_s - last_s >= (cadence.every_ms / 1_000 if every_s is None else every_s):
            last_s, cost_s, since = at_s, cost_s + SNAPSHOT_S + ROW_S * since, 0.0
    return Taken(worst_s, cost_s, tuple(decisions))
