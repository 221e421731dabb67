"""Decisions of the cadence controller, as records that name their reason, and what is in force by them.

They are on the topic of the recovery trail, as those of a service `cadence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.recovery_log import CADENCE, Recovery

EPOCHS, SNAPSHOTS = "epochs", "snapshots"
SETTINGS = {EPOCHS: ("events_max", "interval_ms"), SNAPSHOTS: ("snapshot_every_ms",)}
"""What a decision of each part sets."""
BURST = 6
"""Decisions that may follow each other at once, after a time without any."""
EVERY_S = 20.0
"""In the long run there is one decision in this time at most, of each part and process."""


@dataclass(frozen=True)
class Decision:
    part: str
    """`epochs` or `snapshots`."""
    sets: Mapping[str, int]
    """What is in force from now on, by the names of SETTINGS."""
    reason: str
    before: Mapping[str, int] = field(default_factory=dict)
    """What was in force; empty for the first decision of a process."""
    inputs: Mapping[str, float] = field(default_factory=dict)
    """The figures that the decision rests on."""

    def facts(self) -> dict[str, str]:
        """Return the decision as facts of the recovery trail, without its reason."""
        before = {f"{name}_before": value for name, value in self.before.items()}
        plain: dict[str, float] = {**self.sets, **before, **self.inputs}
        return {
            "part": self.part,
            **{name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in plain.items()},
        }


def decision_of(one: Recovery) -> Decision | None:
    """Return the decision of a record of the trail; None if it is of another service, or of a newer version."""
    if one.service != CADENCE:
        return None
    facts = {fact.name: fact.value for fact in one.found}
    names = SETTINGS.get(part := facts.pop("part", ""), ())
    try:
        sets = {name: int(facts.pop(name)) for name in names}
        before = {name: int(value) for name in names if (value := facts.pop(f"{name}_before", None)) is not None}
        inputs = {name: float(value) for name, value in facts.items()}
    except (KeyError, ValueError):
        return None
    return Decision(part, sets, one.decision, before, inputs) if sets else None


def in_force(records: Iterable[tuple[Recovery, Decision]]) -> list[tuple[Recovery, Decision]]:
    """Return the newest decision of each process and part, of the newest generation that decided on that part.

    `records`: in the order of the log. Of epochs only the newest process counts: an earlier driver is fenced.
    """
    newest: dict[tuple[str, str], tuple[Recovery, Decision]] = {}
    latest: dict[str, Generation] = {}
    for record, decision in records:
        process = record.process if decision.part == SNAPSHOTS else ""
        newest[decision.part, process] = (record, decision)
        latest[decision.part] = record.generation
    return [newest[key] for key in sorted(newest) if newest[key][0].generation == latest[key[0]]]


class Allowance:
    """How many decisions may be made: BURST at once, one each EVERY_S. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._left, self._at_s = float(BURST), 0.0

    def take(self, now_s: float) -> bool:
        """Return whether a decision may be made now, and count it."""
        self._left = min(self._left + max(now_s - self._at_s, 0.0) / EVERY_S, float(BURST))
        self._at_s = max(now_s, self._at_s)
        if self._left < 1:
            return False
        self._left -= 1
        return True
