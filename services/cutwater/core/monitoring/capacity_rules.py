"""Alert rules of watch about what lies ahead: a disk that fills, a snapshot too old for the recovery target."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alert_rules import Judge, Limits, Verdict
from cutwater.core.monitoring.alerts import Alert, Key
from cutwater.core.monitoring.disk_forecast import Disk
from cutwater.core.monitoring.history import rows_since
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.rehydrators import VIEW_START_S

FREE_SHARE_MIN = 0.03
"""A disk with less free space is full soon, whatever its rate."""
RESOLVE_FACTOR = 1.5
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
_GB = 1e9


def _filling(what: str, is_meant: Callable[[str], bool]) -> Judge:
    def judge(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
        found = [(name, disk) for name, disk in sorted(state.disks.items()) if is_meant(name)]
        if not limits.full_within_ms or not found:
            return None
        if worst := min(_full_in(found, limits.full_within_ms, FREE_SHARE_MIN), default=None):
            return Verdict(True, worst[1], round(worst[0] / 1_000))
        known = all(disk.forecast.span_ms for _, disk in found)
        over = _full_in(found, round(limits.full_within_ms * RESOLVE_FACTOR), FREE_SHARE_MIN * RESOLVE_FACTOR)
        return Verdict(False, f"{what} has space for longer") if known and not over else None

    return judge


def _full_in(disks: list[tuple[str, Disk]], within_ms: int, share_min: float) -> list[tuple[float, str]]:
    """Return for each disk that is full within that time, or nearly now: in how many ms, and the text."""
    found = []
    for name, disk in disks:
        free, left_ms = disk.newest.free_bytes, disk.forecast.full_in_ms
        of = f"{name} has {free / _GB:,.1f} of {disk.total_bytes / _GB:,.1f} GB free"
        if left_ms is not None and left_ms <= within_ms:
            rate = f"at the rate of the last {duration_text(disk.forecast.span_ms)}"
            found.append((left_ms, f"{of}: it is full in {duration_text(left_ms)} {rate}"))
        elif free < share_min * disk.total_bytes:
            found.append((0.0, f"{of}: it is nearly full"))
    return found


def _old_snapshot(state: JobStatus, limits: Limits, now_ms: int, is_on: Alert | None) -> Verdict | None:
    newest = state.snapshot
    if not limits.recovery_ms or newest is None or state.committed is None:
        return None
    rows = rows_since(state.history, newest.sequence, newest.created_ms)
    took_ms = restore_ms(rows, newest.bytes, limits.machine)
    if took_ms > limits.recovery_ms:
        text = (
            f"the newest snapshot is {duration_text(now_ms - newest.created_ms)} old, and about {rows:,} rows "
            f"came after it: a restore takes {duration_text(took_ms)}, and the target is "
            f"{duration_text(limits.recovery_ms)}"
        )
        return Verdict(True, text, round(took_ms))
    enough = took_ms * RESOLVE_FACTOR <= limits.recovery_ms
    return Verdict(False, f"a restore takes {duration_text(took_ms)}") if enough else None


def restore_ms(rows: int, snapshot_bytes: int, machine: Machine) -> float:
    """Return how long a rehydrator takes to restore: its start, the snapshot, and the rows after it."""
    snapshot_s = snapshot_bytes / machine.restore_bytes_per_s
    return 1_000 * (VIEW_START_S + snapshot_s + rows / machine.replay_rows_per_s)


def duration_text(ms: float) -> str:
    """Return a duration in the largest unit of which there are at least two."""
    for unit_ms, name in ((DAY_MS, "days"), (HOUR_MS, "hours"), (60_000, "minutes")):
        if ms >= 2 * unit_ms:
            return f"{ms / unit_ms:,.0f} {name}"
    return f"{max(0.0, ms) / 1_000:,.0f} s"


CAPACITY: dict[Key, Judge] = {
    (alerts.FILLING_DISK, alerts.DATA_FOLDER): _filling("the disk", lambda name: name == alerts.DATA_FOLDER),
    (alerts.FILLING_DISK, alerts.BROKERS): _filling("each broker", lambda name: name != alerts.DATA_FOLDER),
    (alerts.OLD_SNAPSHOT, alerts.VIEW): _old_snapshot,
}
"""Alerts about what lies ahead."""
