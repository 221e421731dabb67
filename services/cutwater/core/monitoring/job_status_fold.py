"""Fold of a job's records into the status that *watch* keeps (`job_status`).

Theory of operation. `take_*` return the next state for one record at an offset. Records read before change
nothing, so a topic may be read again from any earlier point. Times in the state are those of the records, not of
the reading, so a watch that was down knows the same as one that was not. `observe_*` add values that are not
records: the source's end and the view's position. `alert_rules` and `alert_changes` evaluate a state at a time.
"""

from __future__ import annotations

from dataclasses import replace

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.disk_forecast import add_sample
from cutwater.core.monitoring.history import add_milestone
from cutwater.core.monitoring.job_status import Bucket, JobStatus, NewestSnapshot, Reader, Sample, drift
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Barrier, Committed, Heartbeat, Milestone, Signal, Start, StreamRecord

BUCKETS_MAX = 12
SAMPLES_MAX = 10
DISKS_MAX = 200
DISK_GONE_MS = 3_600_000


def take_signal(state: JobStatus, topic: str, offset: int, signal: Signal) -> JobStatus:
    """Add a record of the barriers topic."""
    if (read := _read(state, topic, offset)) is None:
        return state
    if signal.generation != state.generation:
        return read  # all generations of a job share the topic
    at_ms = signal.written_ms if isinstance(signal, Barrier) else signal.at_ms
    if signal.attempt < state.attempt:
        return replace(read, foreign_ms=max(at_ms, state.foreign_ms), foreign_attempt=signal.attempt)
    told = replace(read, attempt=signal.attempt, spoke_ms=max(at_ms, state.spoke_ms))
    if isinstance(signal, Start):
        return replace(told, idle=False)
    if isinstance(signal, Barrier):
        # Spark runs an epoch only after the commit log holds the one before.
        told = _confirm(told, signal.epoch - 1, at_ms)
        return replace(told, processed=signal, idle=False)
    if isinstance(signal, Committed):
        told = replace(told, hint=signal)
    return replace(_confirm(told, signal.epoch, at_ms), idle=isinstance(signal, Heartbeat))


def take_stream(state: JobStatus, topic: str, offset: int, record: StreamRecord) -> JobStatus:
    """Add a record of the commit stream. Its heartbeats repeat those of the barriers topic and are ignored."""
    if (read := _read(state, topic, offset)) is None:
        return state
    if not isinstance(record, Milestone):
        return read
    if record.generation != state.generation:
        later = record.generation.number > state.generation.number
        return replace(read, successor=record.generation) if later else read
    owed = record.epoch < read.confirmed
    return replace(
        read,
        committed=record,
        confirmed=max(read.confirmed, record.epoch),
        owed_ms=max(read.owed_ms, record.committed_ms) if owed else 0,
        buckets=_add_to_bucket(state.buckets, record, state.bucket_ms),
        history=add_milestone(state.history, record, state.bucket_ms),
        publisher=_mark_behind(state.publisher, record),
        view=_mark_behind(state.view, record) if state.view else None,
    )


def take_published(state: JobStatus, topic: str, offset: int, sequence: int, at_ms: int) -> JobStatus:
    """Add the publisher's position: the milestone that the output holds completely, and its time."""
    if (read := _read(state, topic, offset)) is None:
        return state
    return replace(read, publisher=_advance_reader(state.publisher, sequence, at_ms))


def take_alert(state: JobStatus, topic: str, offset: int | None, alert: Alert) -> JobStatus:
    """Add a record of the alerts topic; `offset`: None if this watch wrote it."""
    reads = {**state.reads, topic: offset + 1} if offset is not None else state.reads
    return replace(state, reads=reads, alerts=alerts.take(state.alerts, alert))


def take_unreadable(state: JobStatus, topic: str, offset: int) -> JobStatus:
    """Count a record that does not belong on the topic, or is of a newer version."""
    read = _read(state, topic, offset)
    return state if read is None else replace(read, unreadable=read.unreadable + 1)


def observe_view(state: JobStatus, sequence: int, now_ms: int) -> JobStatus:
    """Add the view's milestone; sequence 0 if it shows nothing."""
    before = state.view or Reader(moved_ms=now_ms)
    return replace(state, view=_advance_reader(before, sequence, now_ms) if sequence > before.sequence else before)


def observe_disk(state: JobStatus, name: str, free_bytes: int, total_bytes: int, now_ms: int) -> JobStatus:
    """Add a disk's free space. One that was not told for DISK_GONE_MS is gone, as with its broker."""
    disk = add_sample(state.disks.get(name), now_ms, free_bytes, total_bytes)
    told = {one: each for one, each in state.disks.items() if now_ms - each.newest.at_ms < DISK_GONE_MS}
    known = {**told, name: disk}
    return replace(state, disks=dict(sorted(known.items())[:DISKS_MAX]))


def observe_snapshot(state: JobStatus, newest: NewestSnapshot | None) -> JobStatus:
    """Add the view's newest snapshot; None if it is unknown now, which changes nothing."""
    return state if newest is None else replace(state, snapshot=newest)


def observe_end(state: JobStatus, end: Cut, now_ms: int, sample_ms: int) -> JobStatus:
    """Add the source's end; keep a sample of the drift every `sample_ms`."""
    waiting = max(0, end.records_since(state.processed.source_cut if state.processed else Cut()))
    since = state.waiting_ms if waiting and state.waiting else now_ms
    return _sampled(replace(state, waiting=waiting, waiting_ms=since), now_ms, sample_ms)


def observe_nothing(state: JobStatus, now_ms: int, sample_ms: int) -> JobStatus:
    """Record that the source's end is unknown."""
    return _sampled(replace(state, waiting=None), now_ms, sample_ms)


def _sampled(state: JobStatus, now_ms: int, sample_ms: int) -> JobStatus:
    newest = state.samples[-1].at_ms if state.samples else None
    if newest is not None and 0 <= now_ms - newest < sample_ms:
        return state
    # After a clock was set back, older samples do not show growth.
    kept = state.samples if newest is None or now_ms > newest else ()
    one = Sample(now_ms, drift(state).epochs, state.waiting)
    return replace(state, samples=(*kept, one)[-SAMPLES_MAX:])


def _read(state: JobStatus, topic: str, offset: int) -> JobStatus | None:
    """Return the state with this offset read; None if it was read before."""
    if offset < state.reads.get(topic, 0):
        return None
    return replace(state, reads={**state.reads, topic: offset + 1})


def _confirm(state: JobStatus, epoch: int, at_ms: int) -> JobStatus:
    if epoch <= state.confirmed:
        return state
    return replace(state, confirmed=epoch, owed_ms=state.owed_ms or at_ms)


def _add_to_bucket(buckets: tuple[Bucket, ...], one: Milestone, bucket_ms: int) -> tuple[Bucket, ...]:
    begin = one.committed_ms - one.committed_ms % bucket_ms
    before = next((each for each in buckets if each.begin_ms == begin), Bucket(begin))
    now = Bucket(
        begin,
        before.rejected + one.rejected - one.no_value,
        max(before.skew_ms, one.skew_ms),
        before.usable + one.events - one.rejected,
        before.late + one.late,
    )
    others = [each for each in buckets if each.begin_ms != begin]
    return tuple(sorted((*others, now), key=lambda each: each.begin_ms))[-BUCKETS_MAX:]


def _mark_behind(reader: Reader, newest: Milestone) -> Reader:
    """Return the reader; one that was caught up is behind from this milestone."""
    caught_up = reader.sequence == newest.sequence - 1
    return replace(reader, behind_ms=newest.committed_ms) if caught_up else reader


def _advance_reader(reader: Reader, sequence: int, at_ms: int) -> Reader:
    # If it is still behind, its time restarts, because it makes progress.
    return Reader(sequence, at_ms) if sequence != reader.sequence else reader
