"""Alert rules of watch: one function per (kind, part), each from the known state and the time.

Raising needs an exceeded limit; resolving needs evidence. So missing knowledge, as after a restart, does neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cutwater.core.driver.input_stats import skew_warning
from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alerts import Alert, Key
from cutwater.core.monitoring.job_status import NONE, JobStatus, Reader, drift, progress_ms
from cutwater.core.sizing.machine import Machine

DRIFT_EPOCHS_MIN = 3
"""Fewer epochs without a milestone are no drift: one is always in progress."""
DRIFT_EVENTS_MIN = 1_000
SAMPLES_MIN = 6
LATE_MIN = 10
"""Fewer late events do not make a meaningful share."""


@dataclass(frozen=True)
class Limits:
    """Limits of the rules. Times in ms."""

    silent_ms: int = 60_000
    """For parts that should act at once: commit-signal, publisher, view."""
    driver_silent_ms: int = 180_000
    """For the driver: longer than the longest pause between the heartbeats of an idle job."""
    stuck_ms: int = 120_000
    window_ms: int = 300_000
    """The period for dead letters, late events, skew, growth and fenced writers."""
    dead_letters: int = 10
    """Dead letters within the window."""
    late: int = 1_000
    """Late events within the window."""
    late_share: float = 0.01
    """Share of all events within the window."""
    lateness_ms: int = 0
    full_within_ms: int = 0
    """A disk that is full within this time raises an alert; 0: none does."""
    recovery_ms: int = 0
    """The target for a restore; 0: there is none."""
    machine: Machine = field(default_factory=Machine)
    """What a restore is computed with."""
    publishes: bool = True
    """Whether the job has an output."""


@dataclass(frozen=True)
class Verdict:
    """Raise or resolve."""

    on: bool
    text: str
    value: int = 0


Judge = Callable[[JobStatus, Limits, int, Alert | None], Verdict | None]
"""(state, limits, now in ms, the alert if it is active) -> what to do, None for nothing."""


def _stuck(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    processed = state.processed
    newest = processed.epoch if processed else NONE
    if processed and state.confirmed < newest:
        age = now_ms - max(processed.written_ms, state.spoke_ms)
        if age > limits.stuck_ms:
            return Verdict(True, f"epoch {newest} was written {_s(age)} ago, but Spark has not committed it", age)
    elif state.waiting and state.spoke_ms:
        begun = max(processed.written_ms if processed else state.spoke_ms, state.waiting_ms)
        if now_ms - begun > limits.stuck_ms:
            text = f"epoch {newest + 1} is not written after {_s(now_ms - begun)}, and {state.waiting} events wait"
            return Verdict(True, text, now_ms - begun)
    moved = processed is not None and processed.written_ms > (is_on.raised_ms if is_on else now_ms)
    done = state.waiting == 0 and state.confirmed >= newest
    return Verdict(False, f"epoch {newest} is written") if moved or done else None


def _driver_silent(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    if not state.spoke_ms:
        return None  # no driver has ever started
    age = now_ms - state.spoke_ms
    if age > limits.driver_silent_ms:
        return Verdict(True, f"no barrier and no heartbeat for {_s(age)}: is the driver up?", age)
    return Verdict(False, "the driver writes records again")


def _signal_silent(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    if state.confirmed <= (state.committed.epoch if state.committed else NONE):
        return Verdict(False, "every committed epoch has its milestone")
    age = now_ms - state.owed_ms
    if age > limits.silent_ms:
        text = (
            f"epoch {state.confirmed} is committed, and for {_s(age)} no milestone arrived: is commit-signal up?"
        )
        return Verdict(True, text, age)
    moved = is_on is not None and progress_ms(state, alerts.SIGNAL) > is_on.raised_ms
    return Verdict(False, "milestones are written again") if moved else None


def _reader_silent(name: str, of: Callable[[JobStatus, Limits], Reader | None]) -> Judge:
    def judge(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
        reader = of(state, limits)
        if reader is None:
            return None
        behind = state.sequence - reader.sequence
        if behind <= 0:
            return Verdict(False, f"the {name} holds the newest milestone")
        age = now_ms - reader.since_ms()
        if age > limits.silent_ms:
            return Verdict(True, f"the {name} is {behind} milestones behind and does not move: is it up?", age)
        moved = is_on is not None and reader.moved_ms > is_on.raised_ms
        return Verdict(False, f"the {name} moves again") if moved else None

    return judge


def _epochs_grow(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    levels = [one.epochs for one in state.samples]
    text = "{} written epochs have no milestone, and the number grows"
    return _growth(levels, drift(state).epochs, DRIFT_EPOCHS_MIN, is_on, text)


def _events_grow(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    if state.waiting is None:
        return None
    levels = [one.waiting for one in state.samples if one.waiting is not None]
    floor = max(DRIFT_EVENTS_MIN, 3 * (state.processed.events if state.processed else 0))
    return _growth(levels, state.waiting, floor, is_on, "{} events wait, and the number grows")


def _growth(levels: list[int], now: int, floor: int, is_on: Alert | None, text: str) -> Verdict | None:
    """Judge growth: the lowest value of the newer half is above the highest of the older half."""
    if now < floor or (is_on and now <= is_on.value // 2):
        return Verdict(False, f"{now} are left")
    half = len(levels) // 2
    grown = len(levels) >= SAMPLES_MIN and min(levels[-half:]) > max(levels[:half])
    return Verdict(True, text.format(now), now) if grown else None


def _dead_letters(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    found = sum(one.rejected for one in state.buckets if _is_recent(one.begin_ms, state, limits, now_ms))
    if found >= limits.dead_letters:
        text = f"{found} events within {_s(limits.window_ms)} could not be used (cutwater dead-letters list)"
        return Verdict(True, text, found)
    return Verdict(False, f"none within {_s(limits.window_ms)}") if not found else None


def _skew(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    recent = [one.skew_ms for one in state.buckets if _is_recent(one.begin_ms, state, limits, now_ms)]
    warning = skew_warning(max(recent, default=0), limits.lateness_ms)
    if warning:
        return Verdict(True, f"{warning} (cutwater late list)", max(recent))
    return Verdict(False, "the partitions are within the lateness")


def _late(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    recent = [one for one in state.buckets if _is_recent(one.begin_ms, state, limits, now_ms)]
    late, usable = sum(one.late for one in recent), sum(one.usable for one in recent)
    if not usable:
        return None  # without events there is no evidence
    text = late_warning(late, usable, limits)
    if text is not None:
        return Verdict(True, f"within {_s(limits.window_ms)} {text} (cutwater late list)", late)
    few = late <= limits.late // 2 and late <= limits.late_share / 2 * usable
    return Verdict(False, f"{late:,} late within {_s(limits.window_ms)}") if few or late < LATE_MIN // 2 else None


def late_warning(late: int, usable: int, limits: Limits) -> str | None:
    """Return a warning if too many of the usable events were late, otherwise None."""
    if late < limits.late and (late < LATE_MIN or late < limits.late_share * usable):
        return None
    return (
        f"{late:,} of {usable:,} events arrived after their window was closed and are not counted: "
        "one event far ahead in time closes windows early, or 'lateness' is too short"
    )


def _fenced(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    quiet = now_ms - max(state.foreign_ms, is_on.raised_ms if is_on else 0)
    if quiet >= limits.window_ms:
        return Verdict(False, "it was not seen again")
    if not state.foreign_ms:
        return None
    text = f"attempt {state.foreign_attempt} writes although attempt {state.attempt} has started"
    return Verdict(True, text, state.foreign_attempt)


def _is_recent(begin_ms: int, state: JobStatus, limits: Limits, now_ms: int) -> bool:
    return now_ms - begin_ms < limits.window_ms + state.bucket_ms


JUDGES: dict[Key, Judge] = {
    (alerts.STUCK_EPOCH, alerts.DRIVER): _stuck,
    (alerts.SILENT, alerts.DRIVER): _driver_silent,
    (alerts.SILENT, alerts.SIGNAL): _signal_silent,
    (alerts.SILENT, alerts.PUBLISHER): _reader_silent(
        "output", lambda state, limits: state.publisher if limits.publishes else None
    ),
    (alerts.SILENT, alerts.VIEW): _reader_silent("view", lambda state, limits: state.view),
    (alerts.GROWING_DRIFT, alerts.SIGNAL): _epochs_grow,
    (alerts.GROWING_DRIFT, alerts.DRIVER): _events_grow,
    (alerts.DEAD_LETTERS, alerts.SOURCE): _dead_letters,
    (alerts.SKEW, alerts.SOURCE): _skew,
    (alerts.LATE, alerts.SOURCE): _late,
    (alerts.FENCED_WRITER, alerts.BARRIERS): _fenced,
}
"""Alerts with limits of the settings. `anomaly_rules` has those without."""


def _s(ms: int) -> str:
    return f"{ms / 1000:.0f} s"
