"""What each part of a job does, in a word or two: for people."""

from __future__ import annotations

from cutwater.core import alerts
from cutwater.core.verdicts import Limits
from cutwater.core.watched import Reader, Watched, drift


def parts(state: Watched, limits: Limits) -> dict[str, str]:
    """By part, from what is known and from the alerts that are on."""
    found = {alerts.DRIVER: _driver(state), alerts.SIGNAL: _signal(state)}
    if limits.publishes:
        found[alerts.PUBLISHER] = _reader(state, alerts.PUBLISHER, state.publisher)
    if state.view is not None:
        found[alerts.VIEW] = _reader(state, alerts.VIEW, state.view)
    return found


def _driver(state: Watched) -> str:
    if not state.spoke_ms:
        return "not started"
    if _on(state, alerts.SILENT, alerts.DRIVER):
        return "silent"
    if _on(state, alerts.STUCK_EPOCH, alerts.DRIVER):
        return "stuck"
    return "idle" if state.idle else "working"


def _signal(state: Watched) -> str:
    if _on(state, alerts.SILENT, alerts.SIGNAL):
        return "silent"
    behind = drift(state).epochs
    # One epoch is under way while the job works.
    return f"{behind} epochs behind" if behind > 1 else "in step"


def _reader(state: Watched, part: str, reader: Reader) -> str:
    if _on(state, alerts.SILENT, part):
        return "silent"
    behind = state.sequence - reader.sequence
    return f"{behind} milestones behind" if behind > 1 else "in step"


def _on(state: Watched, kind: str, part: str) -> bool:
    known = state.alerts.get((kind, part))
    return known is not None and known.on
