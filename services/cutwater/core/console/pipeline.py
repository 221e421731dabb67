"""The pipeline of a job as a picture: its stages, and how far each is behind the one before.

The document is plain JSON. An unknown figure is null, and never 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alert_rules import DRIFT_EPOCHS_MIN, DRIFT_EVENTS_MIN, Limits
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.job_status import JobStatus, Reader, drift
from cutwater.core.monitoring.status_text import status_by_part

OK, BEHIND, ALERT, UNKNOWN = "ok", "behind", "alert", "unknown"
"""The states of a stage."""
ALERTS_MAX = 200
MILESTONES_MOST = 1
"""One milestone is always in progress while the job works."""
SOURCE, DRIVER, CHANGELOG, SIGNAL = "source", "driver", "changelog", "commit-signal"
VIEW, PUBLISHER, OUTPUT = "view", "publisher", "output"
_PARTS = {
    SOURCE: (alerts.SOURCE,),
    DRIVER: (alerts.DRIVER, alerts.BARRIERS),
    SIGNAL: (alerts.SIGNAL,),
    VIEW: (alerts.VIEW, "rehydrator"),
    PUBLISHER: (alerts.PUBLISHER,),
}
"""The parts that alerts name, by stage."""


class Names(NamedTuple):
    """The topics of a job, as the picture shows them. `output`: empty if the job publishes nothing."""

    source: str
    changelog: str
    output: str


def pipeline(
    status: JobStatus, limits: Limits, names: Names, now_ms: int, more: Iterable[Alert] = ()
) -> dict[str, Any]:
    """Return stages, links and active alerts. `more`: alerts that are on no topic."""
    active = [*alerts.on(status.alerts), *more]
    links = _links(status, limits, now_ms)
    return {
        "job": status.job,
        "generation": str(status.generation),
        "attempt": status.attempt,
        "now_ms": now_ms,
        "milestone": _milestone(status, now_ms),
        "unreadable": status.unreadable,
        "stages": _stages(status, limits, names, active, links, now_ms),
        "links": links,
        "alerts": [alerts.plain(one) for one in active[:ALERTS_MAX]],
    }


def _milestone(status: JobStatus, now_ms: int) -> dict[str, Any] | None:
    one = status.committed
    if one is None:
        return None
    return {
        "token": str(one.token),
        "sequence": one.sequence,
        "epoch": one.epoch,
        "events": one.events,
        "rows": one.rows,
        "watermark_ms": one.watermark_ms,
        "committed_ms": one.committed_ms,
        "age_ms": max(0, now_ms - one.committed_ms),
    }


def _links(status: JobStatus, limits: Limits, now_ms: int) -> list[dict[str, Any]]:
    """Return the drift between neighbouring stages."""
    far, processed = drift(status), status.processed
    took = None if processed is None else max(0, processed.written_ms - processed.epoch_started_ms)
    rows = None if processed is None else processed.rows
    known = processed is not None
    waiting_most = max(DRIFT_EVENTS_MIN, 3 * processed.events if processed else 0)
    found = [
        _link(SOURCE, DRIVER, far.waiting, "events", None, most=waiting_most),
        _link(DRIVER, CHANGELOG, rows, "rows", took, is_drift=False),
        _link(
            *(CHANGELOG, SIGNAL, far.epochs if known else None, "epochs", far.ms if known else None),
            most=DRIFT_EPOCHS_MIN - 1,
        ),
        _reader_link(SIGNAL, VIEW, status, status.view, now_ms),
    ]
    if limits.publishes:
        found.append(_reader_link(SIGNAL, PUBLISHER, status, status.publisher, now_ms))
        found.append(_link(PUBLISHER, OUTPUT, far.unpublished, "milestones", None))
    return found


def _link(
    start: str,
    end: str,
    behind: int | None,
    unit: str,
    ms: int | None,
    is_drift: bool = True,
    most: int = MILESTONES_MOST,
) -> dict[str, Any]:
    """`is_drift`: the rows of the newest epoch are none. `most`: the drift of a job that is in step."""
    state = OK if not is_drift else UNKNOWN if behind is None else BEHIND if behind > most else OK
    return {
        "from": start,
        "to": end,
        "behind": behind,
        "unit": unit,
        "ms": ms,
        "is_drift": is_drift,
        "state": state,
    }


def _reader_link(start: str, end: str, status: JobStatus, reader: Reader | None, now_ms: int) -> dict[str, Any]:
    if reader is None:
        return _link(start, end, None, "milestones", None)
    behind = max(0, status.sequence - reader.sequence)
    ms = max(0, now_ms - reader.since_ms()) if behind and reader.since_ms() else 0
    return _link(start, end, behind, "milestones", ms)


def _stages(
    status: JobStatus,
    limits: Limits,
    names: Names,
    active: list[Alert],
    links: list[dict[str, Any]],
    now_ms: int,
) -> list[dict[str, Any]]:
    told = status_by_part(status, limits, now_ms)
    texts = {
        SOURCE: names.source,
        DRIVER: told[alerts.DRIVER],
        CHANGELOG: names.changelog,
        SIGNAL: told[alerts.SIGNAL],
        VIEW: told.get(alerts.VIEW, "unknown: the rehydrator does not answer"),
    }
    if limits.publishes:
        texts |= {PUBLISHER: told[alerts.PUBLISHER], OUTPUT: names.output}
    return [
        {"id": name, "text": text, "state": _state(name, active, links), "alerts": len(_of_stage(name, active))}
        for name, text in texts.items()
    ]


def _of_stage(name: str, active: list[Alert]) -> list[Alert]:
    return [one for one in active if one.part in _PARTS.get(name, ())]


def _state(name: str, active: list[Alert], links: list[dict[str, Any]]) -> str:
    if _of_stage(name, active):
        return ALERT
    into = {one["state"] for one in links if one["to"] == name}
    return UNKNOWN if UNKNOWN in into else BEHIND if BEHIND in into else OK
