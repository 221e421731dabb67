"""One-line status of each part of a job."""

from __future__ import annotations

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alert_rules import Limits
from cutwater.core.monitoring.job_status import NONE, JobStatus, Reader, drift

QUIET_MS = 5_000
"""An idle driver reports new events sooner than this, by an epoch or a heartbeat."""


def status_by_part(state: JobStatus, limits: Limits, now_ms: int) -> dict[str, str]:
    """Return the status by part, from the known state and the active alerts."""
    found = {alerts.DRIVER: _driver(state, now_ms), alerts.SIGNAL: _signal(state)}
    if limits.publishes:
        found[alerts.PUBLISHER] = _reader(state, alerts.PUBLISHER, state.publisher)
    if state.view is not None:
        found[alerts.VIEW] = _reader(state, alerts.VIEW, state.view)
    return found


def _driver(state: JobStatus, now_ms: int) -> str:
    if not state.spoke_ms:
        return "not started"
    if _on(state, alerts.SILENT, alerts.DRIVER):
        return "silent"
    if _on(state, alerts.STUCK_EPOCH, alerts.DRIVER):
        return "stuck"
    if state.waiting:
        return _with_events(state, state.waiting, now_ms)
    if state.hidden:
        return (
            f"has read all committed events; {state.hidden:,} offsets are after the start of an open transaction"
        )
    return "idle" if state.idle else "working"


def _with_events(state: JobStatus, waiting: int, now_ms: int) -> str:
    quiet_ms = max(0, now_ms - state.spoke_ms)
    if state.idle and quiet_ms < QUIET_MS:
        return "beginning"
    since = f"nothing heard for {quiet_ms / 1000:.0f} s, {waiting:,} events wait"
    if state.idle:
        return f"{since}: has it been killed?"
    newest = state.processed.epoch if state.processed else NONE
    return f"at epoch {newest + 1}: {since}{_time_left(state, waiting)}"


def _time_left(state: JobStatus, waiting: int) -> str:
    """Return the estimated remaining time by the rate of the newest epoch."""
    one = state.processed
    took_ms = one.written_ms - one.epoch_started_ms if one else 0
    if one is None or took_ms <= 0 or not one.events:
        return ""
    per_s = one.events * 1000 / took_ms
    return f", {per_s:,.0f} events/s before: about {waiting / per_s:,.0f} s left"


def _signal(state: JobStatus) -> str:
    if _on(state, alerts.SILENT, alerts.SIGNAL):
        return "silent"
    behind = drift(state).epochs
    # One epoch is always in progress while the job works.
    return f"{behind} epochs behind" if behind > 1 else "in step"


def _reader(state: JobStatus, part: str, reader: Reader) -> str:
    if _on(state, alerts.SILENT, part):
        return "silent"
    behind = state.sequence - reader.sequence
    return f"{behind} milestones behind" if behind > 1 else "in step"


def _on(state: JobStatus, kind: str, part: str) -> bool:
    known = state.alerts.get((kind, part))
    return known is not None and known.on
