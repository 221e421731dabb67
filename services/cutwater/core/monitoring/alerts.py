"""Alerts: what a person should look into. One record when it is raised, one when it is resolved.

Records may be read twice and late; `newer` makes the order of reading irrelevant, so that whoever reads the topic
`<job>.alerts` from any point arrives at the same alerts. Times are milliseconds since 1970, UTC.
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
KINDS = (STUCK_EPOCH, SILENT, GROWING_DRIFT, DIVERGENCE, FENCED_WRITER, DEAD_LETTERS, SKEW, LATE)
"""The words of the field `kind`; docs/OPERATING.md says what each means and who acts."""

REPEATED_FAILURE = "repeated-failure"
"""On no topic: of a local stack, by `cutwater status`. Its part is the name of a process."""

DRIVER = "driver"
SIGNAL = "commit-signal"
PUBLISHER = "publisher"
VIEW = "view"
SOURCE = "source"
BARRIERS = "barriers"

TEXT_MAX = 1_000
"""Characters of an alert's text."""

Key = tuple[str, str]
"""(kind, part): at most one alert of a key is on."""


@dataclass(frozen=True)
class Alert:
    """One alert of one part of a job, on until `resolved_ms`."""

    job: str
    generation: Generation
    kind: str
    part: str
    """Whom it is about: a service, the source, or the barriers topic."""
    told_by: str
    """The service that wrote it."""
    raised_ms: int
    """By the clock of the service that raised it; (kind, part, raised_ms) names the alert."""
    resolved_ms: int | None
    """None while it is on."""
    sequence: int
    """The newest milestone known to the writer; 0 for none."""
    value: int
    """The number behind it, in the unit that docs/OPERATING.md gives for the kind."""
    text: str

    @property
    def key(self) -> Key:
        return self.kind, self.part

    @property
    def on(self) -> bool:
        return self.resolved_ms is None

    @property
    def name(self) -> str:
        """The same in both records of an alert: by it a receiver knows a repeated delivery."""
        return f"{self.job}/{self.kind}/{self.part}/{self.raised_ms}"


def plain(alert: Alert) -> dict[str, Any]:
    """An alert as plain values, for JSON: times in ISO 8601, UTC."""
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
    }


Known = Mapping[Key, Alert]
"""The newest record of each key."""


def newer(known: Alert | None, told: Alert) -> Alert:
    """Which of two records of a key stands: of the later alert, and of one alert its end."""
    if known is None or _rank(told) > _rank(known):
        return told
    return known


def take(known: Known, told: Alert) -> Known:
    """The alerts after one more record."""
    stands = newer(known.get(told.key), told)
    return known if stands is known.get(told.key) else {**known, told.key: stands}


def fold(records: Iterable[Alert]) -> Known:
    """The alerts that records leave, in whatever order they are read."""
    known: Known = {}
    for record in records:
        known = take(known, record)
    return known


def on(known: Known) -> list[Alert]:
    """Those that are on, the oldest first."""
    return sorted((one for one in known.values() if one.on), key=lambda one: (one.raised_ms, one.key))


def next_raised_ms(before: Alert | None, now_ms: int) -> int:
    """When an alert is raised: later than the one before it, even where the clock was set back."""
    return now_ms if before is None else max(now_ms, before.raised_ms + 1)


def resolved(alert: Alert, now_ms: int, text: str, sequence: int, told_by: str) -> Alert:
    """The record that ends an alert."""
    ended = max(now_ms, alert.raised_ms)
    return replace(alert, resolved_ms=ended, text=text[:TEXT_MAX], sequence=sequence, told_by=told_by)


def _rank(one: Alert) -> tuple[int, bool, int, str]:
    # The last two only so that any two different records have an order: it must not matter which is read first.
    return one.raised_ms, not one.on, one.resolved_ms or 0, repr(one)
