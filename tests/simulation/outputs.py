"""The rows of an output, as a plain reader takes them: each replaces the one before of its window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.core.job.job import FINAL, TOMBSTONE, Job
from cutwater.core.output.position import End
from cutwater.core.protocol import topics
from simulation.checker import INVERSION, LOST_WRITE, REPEATED_FINAL, Anomaly, State, Truth, Window
from simulation.job import JOB
from simulation.log import Log, Outcome, Partition


class Row(NamedTuple):
    sequence: int
    kind: str
    window: Window
    value: Any


def look_at_rows(log: Log, job: Job, truths: Sequence[Truth]) -> None:
    """After the last milestone the newest rows of all windows are its state, whatever they went through.

    And no window is final twice, and no row is of a milestone before one that has been written.
    """
    folded: State = {}
    final: set[Window] = set()
    for number, partition in enumerate(log.topics[topics.output(JOB.name)]):
        before = 0
        for row in _rows(partition, job):
            if row.sequence < before:
                raise Anomaly(INVERSION, f"output/{number} has a row of {row.sequence} behind one of {before}")
            if row.kind == FINAL and row.window in final:
                raise Anomaly(
                    REPEATED_FINAL, f"output/{number} has {row.window} twice as a final, at {row.sequence}"
                )
            final |= {row.window} if row.kind == FINAL else set()
            folded[row.window] = row.value
            if row.kind == TOMBSTONE:
                del folded[row.window]
            before = row.sequence
    last = last_end(log)
    if last:
        _require_state(folded, job, truths[:last])


def _require_state(folded: State, job: Job, truths: Sequence[Truth]) -> None:
    """What a horizon had passed before a rollback may stand there still."""
    truth, passed_ms, behind = truths[-1], max(one.horizon_ms for one in truths), amended(truths)
    due = truth.closed if job.output.mode == "final" else truth.everything
    wrong = {
        one: (folded.get(one), due.get(one))
        for one in ({*folded, *due} - behind if job.output.mode == "final" else {*folded, *due})
        if folded.get(one) != due.get(one)
        and one[1] + truth.size_ms > (truth.horizon_ms if one in due else passed_ms)
    }
    if wrong:
        told = dict(sorted(wrong.items()))
        raise Anomaly(LOST_WRITE, f"the output at {truth.milestone.token}: (shown, true) {told}")


def amended(truths: Sequence[Truth]) -> set[Window]:
    """Windows that events have changed behind the watermark: Spark drops those events, and its model does not.

    Their finals stay as they were published.
    """
    found: set[Window] = set()
    for before, one in pairwise(truths):
        if before.milestone.generation == one.milestone.generation:
            found |= one.changed & before.closed.keys()
    return found


def last_end(log: Log) -> int:
    """The newest milestone that every partition has ended."""
    found = []
    for partition in log.topics[topics.output(JOB.name)]:
        ends = [end.sequence for end in _ends(partition) if end.last]
        found.append(max(ends, default=0))
    return min(found)


def _ends(partition: Partition) -> Iterator[End]:
    for value, key in committed(partition):
        if key is None:
            end = protocol_records.decode(value)
            assert isinstance(end, End)
            yield end


def _rows(partition: Partition, job: Job) -> Iterator[Row]:
    codec = _codec(job.output.mode, job.overlap_ms > 0, job)
    for value, key in committed(partition):
        if key is not None:
            found: dict[str, Any] = codec.decode(value)
            window = found["key"], protocol_records.millis(found["window_start"])
            yield Row(found["sequence"], found["kind"], window, (found["total"], found["writer"]))


def committed(partition: Partition) -> Iterator[tuple[bytes, bytes | None]]:
    for one in partition.records:
        done = one.transaction is not None and one.transaction.outcome is Outcome.COMMITTED
        if done and not one.marker:
            yield one.value or b"", one.key


_CODECS: dict[tuple[str, bool], Codec] = {}


def _codec(mode: str, sliding: bool, job: Job) -> Codec:
    return _CODECS.setdefault((mode, sliding), Codec(job.output_schema))
