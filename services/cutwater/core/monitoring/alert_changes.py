"""Changes of alerts: the records to write, from the verdicts on a job and the active alerts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alert_rules import JUDGES, Limits, Verdict
from cutwater.core.monitoring.alerts import TEXT_MAX, Alert, Key
from cutwater.core.monitoring.anomaly_rules import ANOMALIES
from cutwater.core.monitoring.capacity_rules import CAPACITY
from cutwater.core.monitoring.job_status import JobStatus, progress_ms

TOLD_BY = "watch"
RULES = {**JUDGES, **ANOMALIES, **CAPACITY}
"""The alerts that watch decides; services that detect a problem write all others."""


def decide_changes(state: JobStatus, limits: Limits, now_ms: int) -> list[Alert]:
    """Return the records of raised and resolved alerts to write now; not again once folded in."""
    return [*_own(state, limits, now_ms), *_ended_alerts(state, limits, now_ms)]


def _own(state: JobStatus, limits: Limits, now_ms: int) -> Iterator[Alert]:
    for key, judge in RULES.items():
        before = state.alerts.get(key)
        is_on = before if before and before.on else None
        verdict = judge(state, limits, now_ms, is_on)
        if verdict and verdict.on and not is_on:
            yield _raised(state, key, verdict, alerts.next_raised_ms(before, now_ms))
        elif verdict and not verdict.on and is_on:
            yield _resolved(state, is_on, now_ms, verdict.text)


def _ended_alerts(state: JobStatus, limits: Limits, now_ms: int) -> Iterator[Alert]:
    """Yield the ends of alerts that services wrote before they stopped: on progress, or after a while."""
    for one in alerts.on(state.alerts):
        if one.key in RULES:
            continue
        if one.kind == alerts.FENCED_WRITER:
            if now_ms - one.raised_ms >= limits.window_ms:
                yield _resolved(state, one, now_ms, "it has stopped, and was not seen again")
        elif progress_ms(state, one.part) > one.raised_ms:
            yield _resolved(state, one, now_ms, f"{one.part} makes progress again")


def _raised(state: JobStatus, key: Key, verdict: Verdict, now_ms: int) -> Alert:
    return Alert(
        job=state.job,
        generation=state.generation,
        kind=key[0],
        part=key[1],
        told_by=TOLD_BY,
        raised_ms=now_ms,
        resolved_ms=None,
        sequence=state.sequence,
        value=verdict.value,
        text=verdict.text[:TEXT_MAX],
    )


def _resolved(state: JobStatus, alert: Alert, now_ms: int, text: str) -> Alert:
    ended = alerts.resolved(alert, now_ms, text, state.sequence, TOLD_BY)
    return replace(ended, generation=state.generation)
