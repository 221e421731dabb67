"""Alert rules of watch without fixed limits: what is unusual for this job (`history`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alert_rules import Judge, Limits, Verdict
from cutwater.core.monitoring.alerts import Alert, Key
from cutwater.core.monitoring.history import Slot, compare_recent, silent_partitions
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.util.suggestions import listed

SLOWER_FACTOR, HOTTER_FACTOR = 2.0, 1.5
"""A step is not slow, and a partition not hot, below so many times the usual."""
STEP_MS = 1.0
"""Times of steps are whole milliseconds, so they vary by one by themselves."""
EXPECTED_MIN = 30.0
"""Records that a partition would have had. By chance alone it has none once in 10^13 times."""
SHOWN_MAX = 5


def _slower(step: str, of: Callable[[Slot], float | None], advice: str) -> Judge:
    def judge(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
        found = compare_recent(_values(state.history.slots, of), SLOWER_FACTOR, STEP_MS)
        if found is None:
            return None
        if found.is_high:
            text = f"{step} takes {found.now:,.0f} ms, and {found.usual:,.0f} ms are usual: {advice}"
            return Verdict(True, text, round(found.now))
        return Verdict(False, f"{step} takes {found.now:,.0f} ms, as usual") if found.is_usual else None

    return judge


def _hotter(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    found = compare_recent(_values(state.history.slots, lambda slot: slot.largest), HOTTER_FACTOR)
    if found is None:
        return None
    if found.is_high:
        text = (
            f"the fullest partition of the changelog has {found.now:.1f} times its even share of the rows, and "
            f"{found.usual:.1f} times are usual: a key has become hot"
        )
        return Verdict(True, text, round(found.now * 100))
    return Verdict(False, "the rows are spread as usual") if found.is_usual else None


def _values(slots: Sequence[Slot], of: Callable[[Slot], float | None]) -> list[float]:
    return [value for value in map(of, slots) if value is not None]


def _watermark(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    history, newest = state.history, state.committed
    if newest is None or not history.moved_ms:
        return None
    age = newest.committed_ms - history.moved_ms
    if history.has_risen and age <= limits.window_ms:
        return Verdict(False, "the watermark rises")
    if age > limits.window_ms and history.unmoved:
        text = (
            f"the watermark has not risen for {age / 1000:.0f} s, while {history.unmoved:,} events were read: no "
            "window closes. The events' times stand still, or one was far ahead of all others"
        )
        return Verdict(True, text, age)
    return None


def _idle_partition(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    newest = state.committed
    if newest is None:
        return None
    at_ms = newest.committed_ms
    found = silent_partitions(state.history, newest.source_cut, at_ms, limits.window_ms, EXPECTED_MIN)
    if found:
        shown = listed(found, SHOWN_MAX)
        text = f"no record for {limits.window_ms / 1000:.0f} s in {shown}, while others have as many as ever"
        return Verdict(True, text, len(found))
    return Verdict(False, "each partition has records") if len(state.history.cuts) > 1 else None


def _mean(total: Callable[[Slot], int]) -> Callable[[Slot], float | None]:
    return lambda slot: total(slot) / slot.milestones if slot.milestones else None


ANOMALIES: dict[Key, Judge] = {
    (alerts.SLOWER, alerts.DRIVER): _slower(
        "an epoch",
        _mean(lambda slot: slot.process_ms),
        "more events, hotter keys, or a busy machine",
    ),
    (alerts.SLOWER, alerts.SIGNAL): _slower(
        "the commit of an epoch", _mean(lambda slot: slot.commit_ms), "the checkpoint's disk, or the brokers"
    ),
    (alerts.HOT_PARTITION, alerts.CHANGELOG): _hotter,
    (alerts.STUCK_WATERMARK, alerts.SOURCE): _watermark,
    (alerts.IDLE_PARTITION, alerts.SOURCE): _idle_partition,
}
"""Alerts that need some minutes of history."""
