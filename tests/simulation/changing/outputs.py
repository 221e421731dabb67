"""The rows of an output whose generations compute different things, as a plain reader takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import HEADER_BYTES, Codec
from cutwater.core.job.job import FINAL, TOMBSTONE
from cutwater.core.protocol import topics
from simulation.changing.checker import ChangingChecker
from simulation.changing.definitions import Definition
from simulation.checker import INVERSION, LOST_WRITE, REPEATED_FINAL, Anomaly
from simulation.job import JOB
from simulation.log import Log, Partition
from simulation.outputs import Row, amended, committed, last_end


def look_at_changing_rows(log: Log, checker: ChangingChecker) -> None:
    """As `outputs.look_at_rows`. A row stays as it was written where the newest generation says the same of it."""
    codecs = {}
    for one in checker.definitions.values():
        codec = Codec(one.job.output_schema)
        codecs[codec.header] = codec, one
    folded: dict[Any, tuple[Any, Definition]] = {}
    final: set[Any] = set()
    for number, partition in enumerate(log.topics[topics.output(JOB.name)]):
        before = 0
        for row, of in _rows(partition, codecs):
            if row.sequence < before:
                raise Anomaly(INVERSION, f"output/{number} has a row of {row.sequence} behind one of {before}")
            if row.kind == FINAL and row.window in final:
                raise Anomaly(
                    REPEATED_FINAL, f"output/{number} has {row.window} twice as a final, at {row.sequence}"
                )
            final |= {row.window} if row.kind == FINAL else set()
            folded.pop(row.window, None)
            if row.kind != TOMBSTONE:
                folded[row.window] = row.value, of
            before = row.sequence
    if last := last_end(log):
        _require_state(folded, checker, last)


def _require_state(folded: dict[Any, tuple[Any, Definition]], checker: ChangingChecker, last: int) -> None:
    truths = checker.truths[:last]
    truth, passed_ms = truths[-1], max(one.horizon_ms for one in truths)
    definition = checker.definitions[truth.milestone.generation]
    due = truth.closed if definition.final else truth.everything
    asked = {*folded, *due} - (amended(truths) if definition.final else set())
    if checker.starts_over():  # the rows of windows that are no more stay there
        asked &= due.keys()
    wrong = {
        one: (folded.get(one), due.get(one))
        for one in asked
        if one[2] > (truth.horizon_ms if one in due else passed_ms)
        and (one not in due or one not in folded or not _says(*folded[one], definition, due[one]))
    }
    if wrong:
        raise Anomaly(LOST_WRITE, f"the output at {truth.milestone.token}: (shown, true) {wrong}")


def _says(values: Any, of: Definition, definition: Definition, due: Any) -> bool:
    """Does a row say what is due? A measure that it does not have is as of no event."""
    names = dict(definition.names_in(of, back=True))
    return bool(due == definition.shown({name: values[old] if old else None for name, old in names.items()}))


def _rows(partition: Partition, codecs: dict[bytes, tuple[Codec, Definition]]) -> Iterator[tuple[Row, Definition]]:
    for value, key in committed(partition):
        if key is not None:
            codec, of = codecs[value[:HEADER_BYTES]]
            found: dict[str, Any] = codec.decode(value)
            start_ms, end_ms = (protocol_records.millis(found[name]) for name in ("window_start", "window_end"))
            values = {one.name: found[one.name] for one in of.measures}
            yield Row(found["sequence"], found["kind"], (found["key"], start_ms, end_ms), values), of
