"""Alerts for operators: one record when an alert is raised, one when it is resolved.

Records may be read twice and late; `newer` makes the reading order irrelevant, so readers of the topic
`<job>.alerts` get the same alerts from any starting point. Times are milliseconds since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cutwater.core.protocol.generation import Generation
from cutwater.core.util.timestamps import iso

STUCK_EPOCH = "stuck-epoch"
SILENT = "silent"
GROWING_DRIFT = "growing-drift"
DIVERGENCE = "divergence"
FENCED_WRITER = "fenced-writer"
DEAD_LETTERS = "dead-letters"
SKEW = "skew"
LATE = "late-events"
SLOWER = "slower-than-usual"
HOT_PARTITION = "hot-partition"
STUCK_WATERMARK = "stuck-watermark"
IDLE_PARTITION = "idle-partition"
FILLING_DISK = "filling-disk"
OLD_SNAPSHOT = "old-snapshot"
KINDS = (
    *(STUCK_EPOCH, SILENT, GROWING_DRIFT, DIVERGENCE, FENCED_WRITER, DEAD_LETTERS, SKEW, LATE),
    *(SLOWER, HOT_PARTITION, STUCK_WATERMARK, IDLE_PARTITION, FILLING_DISK, OLD_SNAPSHOT),
)
"""The values of the field `kind`; docs/OPERATING.md describes each and who must act."""

REPEATED_FAILURE = "repeated-failure"
"""Not on a topic: `cutwater status` reports it for a local stack. Its part is the name of a process."""

DRIVER = "driver"
SIGNAL = "commit-signal"
PUBLISHER = "publisher"
VIEW = "view"
SOURCE = "source"
BARRIERS = "barriers"
CHANGELOG = "changelog"
DATA_FOLDER = "data-folder"
BROKERS = "brokers"

FIRST_STEPS = {
    STUCK_EPOCH: "cutwater history --service driver",
    SILENT: "cutwater status",
    GROWING_DRIFT: "cutwater milestones --limit 20",
    DIVERGENCE: "cutwater verify",
    FENCED_WRITER: "cutwater generation list",
    DEAD_LETTERS: "cutwater dead-letters list",
    SKEW: "cutwater late list",
    LATE: "cutwater late list",
    SLOWER: "cutwater milestones --limit 20",
    HOT_PARTITION: "cutwater milestones --limit 20",
    STUCK_WATERMARK: "cutwater milestones --limit 20",
    IDLE_PARTITION: "cutwater status",
    FILLING_DISK: "cutwater doctor",
    OLD_SNAPSHOT: "cutwater snapshots list",
    REPEATED_FAILURE: "cutwater history",
}
"""The command that a runbook begins with, by kind (docs/RUNBOOKS.md)."""

RESTART, PAUSE_MIRROR, SHED, HOLD = "restart", "pause-mirror", "shed", "hold"
SAFE_ACTIONS = (RESTART, PAUSE_MIRROR, SHED, HOLD)
"""What watch may do about an alert, if the settings allow it (`safe_actions`)."""

TEXT_MAX = 1_000
"""Maximum length of an alert's text in characters."""

Key = tuple[str, str]
"""(kind, part): at most one alert of a key is active."""


@dataclass(frozen=True)
class Alert:
    """One alert of one part of a job, active until `resolved_ms`."""

    job: str
    generation: Generation
    kind: str
    part: str
    """The affected part: a service, the source, or the barriers topic."""
    told_by: str
    """The service that wrote it."""
    raised_ms: int
    """By the clock of the service that raised it; (kind, part, raised_ms) names the alert."""
    resolved_ms: int | None
    """None while it is active."""
    sequence: int
    """The newest milestone known to the writer; 0 for none."""
    value: int
    """The measured number, in the unit that docs/OPERATING.md gives for the kind."""
    text: str

    @property
    def key(self) -> Key:
        return self.kind, self.part

    @property
    def on(self) -> bool:
        return self.resolved_ms is None

    @property
    def name(self) -> str:
        """The id in both records of an alert, by which a receiver recognises a repeated delivery."""
        return f"{self.job}/{self.kind}/{self.part}/{self.raised_ms}"


def plain(alert: Alert) -> dict[str, Any]:
    """Return an alert as plain values for JSON: times in ISO 8601, UTC."""
    return {
        "id": alert.name,
        "state": "raised" if alert.on else "resolved",
        "job": alert.job,
        "generation": str(alert.generation),
        "kind": alert.kind,
        "part": alert.part,
        "told_by": alert.told_by,
        "raised": str(iso(alert.raised_ms, always_ms=True)),
        "resolved": None if alert.resolved_ms is None else str(iso(alert.resolved_ms, always_ms=True)),
        "sequence": alert.sequence,
        "value": alert.value,
        "text": alert.text,
        "first_step": FIRST_STEPS.get(alert.kind, ""),
        "runbook": f"docs/RUNBOOKS.md#{alert.kind}",
    }


Known = Mapping[Key, Alert]
"""The newest record of each key."""


def newer(known: Alert | None, told: Alert) -> Alert:
    """Return the newer of two records of a key: the later alert, or the end of the same alert."""
    if known is None or _rank(told) > _rank(known):
        return told
    return known


def take(known: Known, told: Alert) -> Known:
    """Return the alerts after one more record."""
    stands = newer(known.get(told.key), told)
    return known if stands is known.get(told.key) else {**known, told.key: stands}


def fold(records: Iterable[Alert]) -> Known:
    """Return the alerts from records in any order."""
    known: Known = {}
    for record in records:
        known = take(known, record)
    return known


def on(known: Known) -> list[Alert]:
    """Return the active alerts, oldest first."""
    return sorted((one for one in known.values() if one.on), key=lambda one: (one.raised_ms, one.key))


def next_raised_ms(before: Alert | None, now_ms: int) -> int:
    """Return the time of a new alert: later than the one before it, even if the clock was set back."""
    return now_ms if before is None else max(now_ms, before.raised_ms + 1)


def resolved(alert: Alert, now_ms: int, text: str, sequence: int, told_by: str) -> Alert:
    """Return the record that ends an alert."""
    ended = max(now_ms, alert.raised_ms)
    return replace(alert, resolved_ms=ended, text=text[:TEXT_MAX], sequence=sequence, told_by=told_by)


def _rank(one: Alert) -> tuple[int, bool, int, str]:
    # The last two give any two different records an order, so that the reading order does not matter.
    return one.raised_ms, not one.on, one.resolved_ms or 0, repr(one)
