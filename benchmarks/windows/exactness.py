"""Is what a contender left behind exact? Every row of its newest output against the oracle's."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, Message, TopicPartition

from benchmarks.windows.oracle import State
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client import TIMEOUT_S, explain, make_consumer
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.job.windows import WindowSpec

_BATCH = 10_000
_STREAMS_VALUE = struct.Struct(">qqq")
_STREAMS_START = struct.Struct(">q")


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
    keys, values = Codec(WINDOW_KEY_SCHEMA), Codec(job.state_schema)
    names = [measure.name for measure in job.measures]
    state: State = {}
    for key, value in records.items():
        at, row = keys.decode(key), values.decode(value)
        count, total, highest = (row[name] for name in names)
        state[at["key"], round(at["window_start"].timestamp() * 1000)] = (count, total, highest)
    return windows_of(state, job.window)


def windows_of(panes: State, window: WindowSpec) -> State:
    """Every window with the sums and the maximum of its panes, whose starts `panes` names."""
    state: State = {}
    for (key, at_ms), (count, total, highest) in panes.items():
        for start in window.starts(at_ms):
            counts, totals, top = state.get((key, start), (0, 0, highest))
            state[key, start] = (counts + count, totals + total, max(top, highest))
    return state


def streams_state(records: Mapping[bytes, bytes]) -> State:
    """Kafka Streams' windowed keys (text, then the start) and our programs' values (three longs)."""
    state: State = {}
    for key, value in records.items():
        count, total, highest = _STREAMS_VALUE.unpack(value)
        state[key[:-8].decode(), _STREAMS_START.unpack(key[-8:])[0]] = (count, total, highest)
    return state


def noop_fault(result: Mapping[str, Any], events: int, expected: State, window: WindowSpec) -> str | None:
    """The query without a sink: all events went in, none was rejected, and the open windows are exact."""
    if (result["events"], result["rejected"]) != (events, 0):
        return f"{result['events']} of {events} events were read, {result['rejected']} rejected"
    panes: State = {(key, start): (count, total, top) for key, start, count, total, top in result["state"]}
    if not panes:
        return "Spark holds no state after the last epoch"
    open_from = min(start for _, start in panes)
    found, wanted = (
        {place: row for place, row in state.items() if place[1] >= open_from}
        for state in (windows_of(panes, window), expected)
    )
    return fault(found, wanted)


def fault(found: State, expected: State) -> str | None:
    """None when both are equal row by row; otherwise how many rows differ, and one of them."""
    if found == expected and expected:
        return None
    missing = [place for place in expected if place not in found]
    unexpected = [place for place in found if place not in expected]
    different = [place for place, row in expected.items() if place in found and found[place] != row]
    example = next(iter([*different, *missing, *unexpected]), None)
    shown = f"; at {example}: {found.get(example)} instead of {expected.get(example)}" if example else ""
    return (
        f"of {len(expected)} rows {len(missing)} are missing and {len(different)} different, "
        f"{len(unexpected)} are unexpected{shown}"
    )
