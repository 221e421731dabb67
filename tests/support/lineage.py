"""A second generation of a job, and an oracle of its state and its late list: DuckDB over all events."""

from __future__ import annotations

import random
import signal
import subprocess
from collections import Counter
from decimal import Decimal
from typing import Any, NamedTuple

import duckdb
import pandas as pd
import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec, protocol_codec
from cutwater.adapters.hashing import key_hash
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.candidates import with_partitions
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.job.job import PLAIN_KEY_SCHEMA
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Candidacy, Claim, Milestone
from support.harness import Flow, wait_until

POINTS = ("seed-brought", "seed-written", "seed-kept")
"""Where a driver dies while it takes over its parent's state."""
MINUTE_MS = 60_000
START_MS = 1_700_000_000_000 // (60 * MINUTE_MS) * 60 * MINUTE_MS
LATENESS_MS, RETENTION_MS = 20 * MINUTE_MS, 90 * MINUTE_MS
PANE_MS = 10 * MINUTE_MS
WINDOWS = {"sliding": (3 * PANE_MS, PANE_MS), "tumbling": (PANE_MS, PANE_MS)}
EVENT = {
    "type": "record",
    "name": "Reading",
    "namespace": "test",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "number", "type": "int"},
        {"name": "small", "type": ["null", "int"]},
        {"name": "big", "type": ["null", "long"]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 9},
        },
        {"name": "ratio", "type": "double"},
        {"name": "label", "type": ["null", "string"]},
    ],
}
ORDERED = "ORDER BY at_ms, position"
MEASURES = {
    "count": "count(*)",
    "count_small": "count(small)",
    "sum_number": "sum(number)::BIGINT",
    "sum_big": "sum(big)",
    "sum_price": "sum(price)",
    "sum_ratio": "sum(ratio)",
    "min_small": "min(small)",
    "min_label": "min(label)",
    "max_big": "max(big)",
    "max_ratio": "max(ratio)",
    "avg_small": "avg(small)",
    "first_label": f"first(label {ORDERED}) FILTER (label IS NOT NULL)",
    "last_small": f"last(small {ORDERED}) FILTER (small IS NOT NULL)",
    "distinct_label": "count(DISTINCT label)",
    "distinct_number": "count(DISTINCT number)",
}
BETWEEN = ("sum_ratio", "avg_small")


class Place(NamedTuple):
    partition: int
    offset: int


class Pair(NamedTuple):
    sensor: str
    start: int
    end: int


def job_text(name: str, kind: str) -> str:
    size, slide = WINDOWS[kind]
    window = f"{{kind: {kind}, size: {size}ms" + (f", slide: {slide}ms}}" if kind == "sliding" else "}")
    measures = []
    for measure in MEASURES:
        measured, _, field = measure.partition("_")
        measures.append(f"  {measure}: {{measure: {measured}" + (f", field: {field}}}" if field else "}"))
    return (
        f"job: {name}\nsource: {{topic: {name}.events, schema: event.avsc, key: sensor, event_time: at}}\n"
        f"window: {window}\nlateness: {LATENESS_MS}ms\nretention: {RETENTION_MS}ms\npartitions: 3\n"
        "shuffle_partitions: 2\nmax_events_per_epoch: 200\nmeasures:\n" + "\n".join(measures) + "\n"
    )


def events(first: int, count: int) -> list[dict[str, Any]]:
    """Readings of ten sensors, 5 s apart, a good part of them behind by up to two hours."""
    rng = random.Random(first)
    made = []
    for number in range(first, first + count):
        behind = rng.choice([0, 0, rng.randrange(MINUTE_MS), rng.randrange(120 * MINUTE_MS)])
        made.append(
            {
                "sensor": f"s{rng.randrange(10)}",
                "at": START_MS + number * 5_000 - behind,
                "number": number,
                "small": rng.choice([None, rng.randrange(-100, 100), 2**31 - 1, -(2**31)]),
                "big": rng.choice([None, rng.randrange(50), 2**63 - 1, -(2**63)]),
                "price": Decimal(rng.randrange(-(10**17), 10**17)).scaleb(-9),
                "ratio": rng.uniform(-1e6, 1e6),
                "label": rng.choice([None, f"l{rng.randrange(300)}", "größe", ""]),
            }
        )
    return made


class Second:
    """A second generation of a flow's job, claimed from a milestone; `places`: what a failover's claim says."""

    def __init__(
        self, job: Flow, parent: Milestone, partitions: int, region: str = "local", **places: Any
    ) -> None:
        self.job = job
        self.parent = parent
        self.generation = Generation(2, region, protocol_records.hash_of(parent).hex()[:8])
        self.partitions = partitions
        self.env = {"CUTWATER_GENERATION": str(self.generation)}
        owned = topics.generation_topics(job.job.name, self.generation, partitions)
        ensure_topics(job.cluster, [one for one in owned if one.name == self.changelog])
        self.writer = TransactionalWriter(job.cluster, topics.claims_id(job.job.name))
        self.writer.initialise()
        claimed = (
            job.job.name,
            self.generation,
            protocol_records.encode(parent),
            partitions,
            0,
            "a test",
            parent.written_ms,
        )
        self.tell(Claim(*claimed, **places))

    @property
    def changelog(self) -> str:
        return topics.changelog(self.job.job.name, self.generation)

    def tell(self, record: Candidacy) -> None:
        self.writer.write(topics.candidates(self.job.job.name), [protocol_records.encode(record)])

    def driver(self) -> subprocess.Popen[bytes]:
        return self.job.driver(**self.env)

    def barriers(self) -> list[Barrier]:
        """By epoch, each of the highest attempt."""
        found = {}
        for _, value in read_all(self.job, topics.barriers(self.job.job.name)):
            one = protocol_records.decode(value)
            if isinstance(one, Barrier) and one.generation == self.generation:
                found[one.epoch] = one
        return [found[epoch] for epoch in sorted(found)]

    def wait(self) -> list[Barrier]:
        """The barriers once they cover every event produced so far."""
        end = source_end(self.job.cluster, self.job.source)

        def covered() -> list[Barrier]:
            found = self.barriers()
            return found if found and found[-1].source_cut.covers(end) else []

        found: list[Barrier] = wait_until(covered, f"a barrier that covers {end}; logs in {self.job.folder}")
        return found

    def listed(self) -> Counter[tuple[Place, Pair]]:
        """What the attempts that won its epochs have listed as late."""
        won = {(one.epoch, one.attempt) for one in self.barriers()}
        keys, values = protocol_codec("late_key"), protocol_codec("late")
        found: Counter[tuple[Place, Pair]] = Counter()
        for key, value in read_all(self.job, topics.late(self.job.job.name)):
            one, of = values.decode(value), keys.decode(key)
            if one["generation"] == str(self.generation) and (one["epoch"], one["attempt"]) in won:
                start, end = (round(of[f"window_{edge}"].timestamp() * 1000) for edge in ("start", "end"))
                found[Place(of["partition"], of["offset"]), Pair(of["key"], start, end)] += 1
        return found


def read_all(job: Flow, topic: str, cut: Cut | None = None) -> list[tuple[bytes, bytes]]:
    """Key and value of every record of a topic, or of those below a cut."""
    consumer, found = make_consumer(job.cluster), []
    for place, end in cut or source_end(job.cluster, topic):
        low, _ = bounds(consumer, topic, place.partition)
        messages = read_range(consumer, topic, place.partition, low, end) if low < end else ()
        found += [(message.key(), message.value()) for message in messages]
    consumer.close()
    return found


def signals_of(job: Flow, generation: Generation, kind: type[Any]) -> list[Any]:
    """Return the records of `kind` that drivers of `generation` have written to the barriers topic."""
    found = (protocol_records.decode(value) for _, value in read_all(job, topics.barriers(job.job.name)))
    return [one for one in found if isinstance(one, kind) and one.generation == generation]


def source(job: Flow) -> dict[Place, dict[str, Any]]:
    codec, consumer, found = Codec(EVENT), make_consumer(job.cluster), {}
    for partition in range(3):
        low, high = bounds(consumer, job.source, partition)
        for message in read_range(consumer, job.source, partition, low) if low < high else ():
            read = codec.decode(message.value())
            read["at"] = protocol_records.millis(read["at"])
            found[Place(partition, message.offset())] = read
    consumer.close()
    return found


def pairs_of(read: dict[str, Any], kind: str) -> list[Pair]:
    size, slide = WINDOWS[kind]
    newest = read["at"] // slide * slide
    starts = range(newest, newest - size, -slide)
    return [Pair(read["sensor"], start, start + size) for start in starts if read["at"] < start + size]


def pane_of(read: dict[str, Any]) -> Pair:
    start = read["at"] // PANE_MS * PANE_MS
    return Pair(read["sensor"], start, start + PANE_MS)


def late_of(
    records: dict[Place, dict[str, Any]], epochs: list[Any], before: dict[int, int], floor: int
) -> set[tuple[Place, Pair]]:
    """What is late in one generation's epochs (or milestones), from their cuts alone: their panes are closed."""
    late = set()
    closed = watermark = 0
    for one in epochs:
        ends = {at.partition: offset for at, offset in one.source_cut}
        read = {
            at: row for at, row in records.items() if before.get(at.partition, 0) <= at.offset < ends[at.partition]
        }
        late |= {(at, pane_of(row)) for at, row in read.items() if pane_of(row).end <= max(floor, closed)}
        closed, watermark = watermark, max([watermark, *(row["at"] - LATENESS_MS for row in read.values())])
        before = ends
    return late


def oracle(
    records: dict[Place, dict[str, Any]], late: set[tuple[Place, Pair]], kind: str
) -> dict[tuple[str, int], dict[str, Any]]:
    """All events but the late ones, by key and start of the window."""
    rows = [
        {**row, "start": pair.start, "at_ms": row["at"], "position": at.partition * 10**9 + at.offset}
        for at, row in records.items()
        for pair in pairs_of(row, kind)
        if (at, pane_of(row)) not in late
    ]
    frame = pd.DataFrame(rows)
    frame["small"] = frame["small"].astype("Int64")
    frame["big"] = pd.Series([one["big"] for one in rows], dtype="Int64")
    columns = ", ".join(f"{sql} AS {name}" for name, sql in MEASURES.items())
    relation = duckdb.sql(f"SELECT sensor, start, {columns} FROM frame GROUP BY ALL")
    names = relation.columns
    return {(row[0], row[1]): dict(zip(names[2:], row[2:], strict=True)) for row in relation.fetchall()}


def assert_equal(mine: dict[str, Any], theirs: dict[str, Any], place: Any) -> None:
    for measure, value in theirs.items():
        if measure.startswith("distinct"):
            assert abs(mine[measure] - value) <= max(1, 0.05 * value), (measure, place)
        elif value is not None and measure in BETWEEN:
            assert mine[measure] == pytest.approx(value, rel=1e-9, abs=1e-6), (measure, place)
        else:
            assert mine[measure] == value, (measure, place)


def assert_whole(second: Second, barriers: list[Barrier], kind: str) -> None:
    """State, lists and counts of the second generation are those of its lineage."""
    job, parent, newest = second.job, second.parent, barriers[-1]
    assert [one.epoch for one in barriers] == list(range(len(barriers)))
    records = source(job)
    own = [one for one, _ in job.milestones() if one.epoch <= parent.epoch]
    inherited = late_of(records, own, {}, 0)
    cut = {at.partition: offset for at, offset in parent.source_cut}
    late = late_of(records, barriers, cut, parent.watermark_ms)
    assert second.listed() == Counter(late), "each late pair once, and no other"
    assert sum(one.late for one in barriers) == len(late)
    assert sum(one.events for one in barriers) == newest.source_cut.records_since(parent.source_cut)
    assert {one.rejected for one in barriers} == {0}
    assert all(one.watermark_ms >= parent.watermark_ms for one in barriers)
    assert min(one.horizon_ms for one in barriers) >= parent.horizon_ms
    # Early ones too: later the horizon has passed the windows that were closed at the floor.
    for one in {barriers[0], barriers[len(barriers) // 2], newest}:
        assert_state(second, one, records, inherited | late, kind)
    assert_placed(second)


def assert_state(
    second: Second,
    at: Barrier,
    records: dict[Place, dict[str, Any]],
    late: set[tuple[Place, Pair]],
    kind: str,
) -> None:
    """The newest rows at a barrier's cut, above its horizon, are what all events below its source cut make."""
    ends, size = {place.partition: offset for place, offset in at.source_cut}, WINDOWS[kind][0]
    read = {place: row for place, row in records.items() if place.offset < ends[place.partition]}
    expected = oracle(read, late, kind)
    above_ms, horizon_ms = (second.job.job.shown_above_ms(one.horizon_ms) for one in (at, second.parent))
    assert any(start + size <= horizon_ms for _, start in expected), "the test must make windows that are no seed"
    above = {name: row for name, row in expected.items() if name[1] + size > above_ms}
    served = second.job.state(at)  # type: ignore[arg-type]
    assert {name for name in served if name[1] + size > above_ms} == above.keys()
    for name, row in above.items():
        assert_equal(served[name], row, name)


def assert_placed(second: Second) -> None:
    """Every row stands in the partition of its key, all of which have some."""
    shards = with_partitions(second.job.job, second.partitions).shards
    keys, consumer, seen = Codec(PLAIN_KEY_SCHEMA), make_consumer(second.job.cluster), set()
    for partition in range(second.partitions):
        _, high = bounds(consumer, second.changelog, partition)
        for message in read_range(consumer, second.changelog, partition, 0) if high else ():
            key = keys.decode_body(message.key(), 10)["key"]
            assert shards.partition(shards.shard(key_hash(key))) == partition
            seen.add(partition)
    consumer.close()
    assert len(seen) > 1


def run_first(job: Flow) -> Milestone:
    """Run the first generation over some events and end it; returns a milestone in the midst of its stream."""
    job.produce(events(0, 1_400))
    signaller, driver = job.signal(), job.driver()
    job.wait_committed()
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(60) == 0
    signaller.send_signal(signal.SIGTERM)
    assert signaller.wait(60) == 0
    found = [one for one, _ in job.milestones() if one.events]
    return found[-2]
