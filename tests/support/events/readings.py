"""Readings out of order, some unusable, and an oracle of what is late: for tests of the lists."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from confluent_kafka import Producer

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.core.driver.rejected_events import LatePair
from cutwater.core.protocol.records import Milestone
from support.harness import Flow

SCHEMA = {
    "type": "record",
    "name": "Reading",
    "namespace": "test",
    "fields": [
        {"name": "key", "type": ["null", "string"]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "value", "type": "int"},
    ],
}
CODEC = Codec(SCHEMA)
START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
SIZE_MS, SLIDE_MS, LATENESS_MS = 30 * MINUTE_MS, 10 * MINUTE_MS, 20 * MINUTE_MS
PANE_MS = 10 * MINUTE_MS
"""Of the sliding windows, and of the tumbling ones."""

BEFORE_1970 = "max_behind: 36500d\n"
"""Of a job file that takes such events: they are late for Spark from the beginning."""

Pair = tuple[str, int, int]
"""(key, window start, window end)."""


def job_text(name: str, sliding: bool = True, per_epoch: int = 200) -> str:
    size = f"kind: sliding, size: {SIZE_MS}ms, slide: {SLIDE_MS}ms" if sliding else "kind: tumbling, size: 10m"
    return (
        f"job: {name}\nsource: {{topic: {name}.events, schema: event.avsc, key: key, event_time: at}}\n"
        f"window: {{{size}}}\nlateness: {LATENESS_MS}ms\nretention: 30d\npartitions: 2\nshuffle_partitions: 1\n"
        f"max_events_per_epoch: {per_epoch}\nmeasures:\n  ticks: {{measure: count}}\n"
    )


def encode(key: str | None, at: int | None, value: int = 0) -> bytes:
    return CODEC.encode({"key": key, "at": at, "value": value})


def drifting(count: int, seed: int) -> list[dict[str, Any]]:
    """Readings whose time goes up by a second each, most in order and some up to two hours behind."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        behind = rng.choice([0, 0, rng.randrange(MINUTE_MS), rng.randrange(120 * MINUTE_MS)])
        at = START_MS + number * 5_000 - behind
        made.append({"key": f"k{rng.randrange(9)}", "at": at, "value": number})
    return made


def produce_raw(job: Flow, values: list[bytes | None], partition: int = 0, key: bytes | None = b"k") -> None:
    """Bytes as they are and in this order, in one partition: a retry on a new topic must not change it."""
    settings = {"message.max.bytes": 10_000_000, "enable.idempotence": True}
    producer = Producer({**job.cluster.librdkafka(), **settings})
    for value in values:
        producer.produce(job.job.topic, value=value, key=key, partition=partition, headers=[("trace", b"7f")])
    assert producer.flush(60) == 0


def source(job: Flow) -> dict[tuple[int, int], bytes | None]:
    """Every record of the source topic, by (partition, offset)."""
    consumer, found = make_consumer(job.cluster), {}
    for partition in range(job.job.shards.partitions):
        low, high = bounds(consumer, job.job.topic, partition)
        for message in read_range(consumer, job.job.topic, partition, low) if high else ():
            found[partition, message.offset()] = message.value()
    consumer.close()
    return found


def pane(at: int) -> tuple[int, int]:
    """(start, end) of the pane that holds a time."""
    start = at // PANE_MS * PANE_MS
    return start, start + PANE_MS


def windows(at: int, sliding: bool) -> list[tuple[int, int]]:
    """(start, end) of each window that holds a time."""
    size, slide = (SIZE_MS, SLIDE_MS) if sliding else (10 * MINUTE_MS, 10 * MINUTE_MS)
    newest = at // slide * slide
    return [(start, start + size) for start in range(newest, newest - size, -slide) if at < start + size]


def usable(value: bytes | None) -> dict[str, Any] | None:
    """The reading, if it can be used, without a bound on its time."""
    try:
        reading = json.loads(json.dumps(CODEC.decode(value or b""), default=_millis))
    except Exception:
        return None
    return reading if reading["key"] is not None and reading["at"] is not None else None


def _millis(moment: Any) -> int:
    return round(moment.timestamp() * 1000)


def oracle(
    job: Flow,
    milestones: list[Milestone],
    sliding: bool,
    parent: Milestone | None = None,
    max_bytes: int = 2**31,
) -> tuple[Counter[Any], Counter[Pair]]:
    """(late (place, pane) by place, counted events by (key, window)) from the source and the epochs' cuts alone.

    A pane is closed for an epoch by what was read before the epoch before it; for a generation that starts from
    a parent also by that one's watermark. `max_bytes`: larger events are not usable.
    """
    records = source(job)
    late: Counter[Any] = Counter()
    counted: Counter[Pair] = Counter()
    before = {place.partition: offset for place, offset in parent.source_cut} if parent else {}
    floor = parent.watermark_ms if parent else 0
    closed = watermark = 0
    for one in milestones:
        ends = {place.partition: offset for place, offset in one.source_cut}
        epoch = [
            (place, usable(value) if len(value or b"") <= max_bytes else None)
            for place, value in records.items()
            if before.get(place[0], 0) <= place[1] < ends[place[0]]
        ]
        times = [reading["at"] for _, reading in epoch if reading]
        for place, reading in epoch:
            if reading is None:
                continue
            start, end = pane(reading["at"])
            if end <= max(floor, closed):
                late[place, (reading["key"], start, end)] += 1
                continue
            for window in windows(reading["at"], sliding):
                counted[(reading["key"], *window)] += 1
        before = ends
        closed, watermark = watermark, max([watermark, *(at - LATENESS_MS for at in times)])
    return late, counted


def told(pairs: list[LatePair]) -> Counter[Any]:
    """The late list in the oracle's words."""
    return Counter(
        (
            (one.event.partition, one.event.offset),
            (one.key, one.window_start_ms, one.window_end_ms),
        )
        for one in pairs
    )
