"""Is what a contender left behind exact? Every row of its newest output against the oracle's."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import eq, itemgetter
from typing import Any

from confluent_kafka import KafkaError, Message, TopicPartition

from benchmarks.windows.oracle import Row, State
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client import TIMEOUT_S, explain, make_consumer
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.job.measures import Partials, merged_row
from cutwater.core.job.panes import merged_windows

_BATCH = 10_000
_START = struct.Struct(">q")
ReadRow = Callable[[bytes], Row]
Equal = Callable[[Row, Row], bool]
"""Whether a found row is the wanted one."""


def records(cluster: Cluster, topic: str, partitions: int) -> Iterator[Message]:
    """Every record of a whole topic, in order within a partition."""
    consumer = make_consumer(cluster, **{"queued.max.messages.kbytes": 65_536})
    ended = set[int]()
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while len(ended) < partitions:
            messages = consumer.consume(_BATCH, timeout=TIMEOUT_S)
            if not messages:
                raise UnavailableError(f"{topic}: no answer within {TIMEOUT_S:.0f} s; is the broker up?")
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise explain(error, f"reading {topic}")
    finally:
        consumer.close()


def newest(cluster: Cluster, topic: str, partitions: int) -> dict[bytes, bytes]:
    """The newest record per key of a whole topic."""
    return {message.key(): message.value() for message in records(cluster, topic, partitions)}


def written_once(messages: Iterable[Message]) -> tuple[dict[bytes, bytes], str | None]:
    """The record per key of a topic, and what is wrong where a key is there twice."""
    found: dict[bytes, bytes] = {}
    again = 0
    for message in messages:
        again += message.key() in found
        found[message.key()] = message.value()
    return found, f"{again} rows were written for windows that had one" if again else None


def changelog_state(records: Mapping[bytes, bytes], job: Job) -> State:
    """Our changelog's records as windows, decoded with the generic Avro library."""
    keys = Codec(WINDOW_KEY_SCHEMA)
    places = ((keys.decode(key), value) for key, value in records.items())
    return windows_of(
        ((at["key"], round(at["window_start"].timestamp() * 1000), value) for at, value in places), job
    )


def windows_of(panes: Iterable[tuple[str, int, bytes]], job: Job) -> State:
    """Every window as a reader sees it, of its panes: (key, start in ms, a changelog's value)."""
    values, by_key = Codec(job.state_schema), defaultdict[str, list[tuple[int, Partials]]](list)
    for key, start_ms, value in panes:
        by_key[key].append((start_ms + job.row_windows.size_ms, values.decode(value)))

    def merge(one: Partials, other: Partials) -> Partials:
        return merged_row(job.measures, one, other)

    return {
        (key, start_ms): tuple(measure.present(row) for measure in job.measures)
        for key, rows in by_key.items()
        for start_ms, row in merged_windows(sorted(rows, key=itemgetter(0)), job.window, merge)
    }


def longs(count: int) -> ReadRow:
    """Reads a row of so many numbers in the bytes that the Java programs write."""
    return struct.Struct(f">{count}q").unpack


TICKS_ROW = longs(3)
"""Reads count, sum and maximum."""


def streams_state(records: Mapping[bytes, bytes], read: ReadRow = TICKS_ROW) -> State:
    """Kafka Streams' windowed keys (text, then the start), and our programs' values."""
    return {(key[:-8].decode(), _START.unpack(key[-8:])[0]): read(value) for key, value in records.items()}


def noop_fault(result: Mapping[str, Any], events: int, expected: State, job: Job, equal: Equal = eq) -> str | None:
    """The query without a sink: all events went in, none was rejected, and the open windows are exact."""
    if (result["events"], result["rejected"]) != (events, 0):
        return f"{result['events']} of {events} events were read, {result['rejected']} rejected"
    panes = [(key, start_ms, bytes.fromhex(value)) for key, start_ms, value in result["state"]]
    if not panes:
        return "Spark holds no state after the last epoch"
    open_from = min(start_ms for _, start_ms, _ in panes)
    found, wanted = (
        {place: row for place, row in state.items() if place[1] >= open_from}
        for state in (windows_of(panes, job), expected)
    )
    return fault(found, wanted, equal)


def fault(found: State, expected: State, equal: Equal = eq) -> str | None:
    """None when both are equal row by row; otherwise how many rows differ, and one of them."""
    missing = [place for place in expected if place not in found]
    unexpected = [place for place in found if place not in expected]
    different = [place for place, row in expected.items() if place in found and not equal(found[place], row)]
    if expected and not (missing or unexpected or different):
        return None
    example = next(iter([*different, *missing, *unexpected]), None)
    shown = f"; at {example}: {found.get(example)} instead of {expected.get(example)}" if example else ""
    return (
        f"of {len(expected)} rows {len(missing)} are missing and {len(different)} different, "
        f"{len(unexpected)} are unexpected{shown}"
    )
