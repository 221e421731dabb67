"""The list of what came too late for its window, as a driver of the simulated world writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from cutwater.adapters.avro.codec import protocol_codec
from cutwater.core.driver.input_stats import InputStats, may_hold_late
from cutwater.core.driver.ports import ListCounts
from cutwater.core.protocol import topics
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.cuts import Range, TopicPartition
from simulation.job import HOUR_MS, JOB, PARTITIONS
from simulation.log import Log, Record
from simulation.processes import Process
from simulation.spark import Event

_keys, _values = protocol_codec("late_key"), protocol_codec("late")


class LateEvent(NamedTuple):
    place: TopicPartition
    record: Record
    event: Event


def window_end_ms(one: Event) -> int:
    return one.at_ms - one.at_ms % HOUR_MS + HOUR_MS


class SimLists:
    """Stands for `RejectedEventLists`, which Spark writes; nothing here is undecodable."""

    def __init__(self, log: Log, process: Process, late: Callable[[Range], list[LateEvent]]) -> None:
        self._log, self._process, self._late = log, process, late

    def write(self, me: Writer, range_: Range, seen: InputStats) -> ListCounts:
        if not may_hold_late(seen, JOB.window, range_.closed_ms):
            return ListCounts()
        found = self._late(range_)
        for one in found:
            self._process.pause()
            key = _keys.encode(_key(me, one))
            value = _values.encode(_value(me, one, range_.closed_ms))
            self._log.append((topics.late(JOB.name), crc32(key) % PARTITIONS), key, value)
        return ListCounts(len(found))


def _key(me: Writer, one: LateEvent) -> dict[str, object]:
    end_ms = window_end_ms(one.event)
    return {
        "generation": str(me.generation),
        "topic": one.place.topic,
        "partition": one.place.partition,
        "offset": one.record.offset,
        "key": one.event.key,
        "window_start": end_ms - HOUR_MS,
        "window_end": end_ms,
    }


def _value(me: Writer, one: LateEvent, closed_ms: int) -> dict[str, object]:
    return {
        "job": JOB.name,
        "generation": str(me.generation),
        "attempt": me.attempt,
        "epoch": me.epoch,
        "watermark_ms": closed_ms,
        "event_time_ms": one.event.at_ms,
        "event_key": one.record.key,
        "event_value": one.record.value,
        "event_written_ms": one.record.time_ms,
        "event_headers": [],
    }
