"""Measures of `kept: state`: what rows have of them, over restarts and in a new generation, against DuckDB.

In one generation each stored value is exact. After a generation has started from a milestone it is exact or null:
null only in a row that has events of before and of after, of which the source no longer tells all.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from test_recounted_rows import EVENT

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.record_deletion import delete_below
from cutwater.core.checks.state_comparison import CHANGELOG, STATE, Verdict
from cutwater.core.job.job import PLAIN_KEY_SCHEMA
from cutwater.core.protocol.records import Milestone
from cutwater.verify.run import Request, verify
from support.harness import GENERATION, Flow, flow
from support.lineage import Second, read_all

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]

MINUTE_MS = 60_000
SIZE_MS = 10 * MINUTE_MS
START_MS = 1_700_000_000_000 // (60 * MINUTE_MS) * 60 * MINUTE_MS
FAR_MS = 4_000_000_000_000
PARTITIONS = 3
JOB = """job: NAME
source: {topic: NAME.events, schema: event.avsc, key: shop, event_time: at}
window: {kind: tumbling, size: 10m}
lateness: 40m
retention: 2d
partitions: 3
shuffle_partitions: 2
max_events_per_epoch: 150
measures:
  sales: {measure: count}
  pieces: {measure: sum, field: pieces}
  products: {measure: distinct, field: product, sketch: theta, kept: state}
  revenue: {measure: sum, field: price, kept: state}
  newest: {measure: last, field: pieces, kept: state}
  mean: {measure: avg, field: pieces, kept: state}
  most: {measure: max, field: pieces, kept: state}
derived:
  per_product: round(sales / products, 3)
  worth: revenue / (pieces - 3)
  spread: max(most, newest, -2) - min(mean, coalesce(newest, 0))
  twice: 2 * per_product
"""
LAST = "max_by(pieces, at_ms::HUGEINT * 100000000000 + place) filter (pieces is not null)"
PLAIN = {"sales": "count(*)", "pieces": "sum(pieces)::BIGINT"}
STORED = {
    "per_product": "round(count(*)::DOUBLE / nullif(count(distinct product), 0), 3)",
    "worth": "sum(price)::DOUBLE / nullif(sum(pieces) - 3, 0)",
    "spread": f"case when count(pieces) > 0 then greatest(max(pieces), {LAST}, -2) "
    f"- least(avg(pieces), {LAST}) end",
}


def events(first: int, count: int) -> list[dict[str, Any]]:
    """Sales 10 s apart, up to 35 minutes out of order and none late; some rows have no value of a field, and some
    events are too far ahead."""
    rng = random.Random(first)

    def one(number: int) -> dict[str, Any]:
        shop = rng.randrange(4)
        return {
            "shop": f"s{shop}",
            "product": f"p{rng.randrange(5)}" if shop and rng.random() > 0.1 else None,
            "at": FAR_MS if not number % 50 else START_MS + number * 10_000 - rng.randrange(35 * MINUTE_MS),
            "pieces": rng.randrange(-5, 20) if shop != 1 else None,
            "price": Decimal(rng.randrange(1, 40_000)).scaleb(-2),
        }

    return [one(number) for number in range(first, first + count)]


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    with flow(broker.cluster, JOB.replace("NAME", unique("state")), tmp_path, json.dumps(EVENT)) as made:
        made.settings["CUTWATER_CATCH_UP_SHARE"] = "1"
        yield made


def ended(*processes: Any) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_rows_have_what_sparks_state_tells(job: Flow) -> None:
    """Also of an attempt that goes on from the checkpoint. Spark's own state says the same, byte for byte."""
    job.produce(events(0, 700))
    signaller, driver = job.signal(), job.driver()
    job.wait_committed()
    ended(driver)
    job.produce(events(700, 500))
    job.driver()
    milestone = job.wait_committed()
    expected = oracle(job)
    served = job.state(milestone)
    assert_rows(served, expected, without=set())
    assert all(row["twice"] == (None if (of := row["per_product"]) is None else 2 * of) for row in served.values())
    assert {one["name"] for one in job.job.state_schema["fields"]} == PLAIN.keys() | STORED.keys()
    request = Request(
        job.job,
        job.job_file,
        job.cluster,
        GENERATION,
        (CHANGELOG, STATE),
        milestone.token,
        spark_env=job.spark_env,
    )
    result = verify(request)
    assert [(one.place, one.verdict, one.reason) for one in result.answers] == [
        (CHANGELOG, Verdict.EQUAL, ""),
        (STATE, Verdict.EQUAL, ""),
    ]
    ended(signaller)


@pytest.mark.parametrize("source", ["whole", "cut off", "not read"])
def test_a_value_in_a_new_generation_is_exact_or_null(job: Flow, source: str) -> None:
    """Whole: every value is exact, since all events of before are counted again. Cut off: the first ones are gone
    from the source, so rows that had one of them have no value if they take more. Not read: so do all."""
    job.produce(events(0, 900))
    signaller, driver = job.signal(), job.driver()
    job.wait_committed()
    ended(driver, signaller)
    parent = [one for one, _ in job.milestones() if one.events][-2]
    every = read_source(job)
    gone = (
        {partition: max(0, end - 45) for partition, end in cut_of(parent).items()} if source == "cut off" else {}
    )
    if gone:
        delete_below(job.cluster, job.source, gone)
    second = Second(job, parent, 5)
    second.env["CUTWATER_RECOUNT_EVENTS"] = "0" if source == "not read" else "100000"
    job.produce(events(900, 700))
    driver = second.driver()
    barriers = second.wait()
    every |= read_source(job)
    served = job.state(barriers[-1])  # type: ignore[arg-type]
    without = rows_without(every, parent, gone, counted_again=source != "not read")
    assert_rows(served, oracle(job, every), without)
    assert bool(without) == (source != "whole"), "the test must make rows without a value"
    both = rows_without(every, parent, {}, counted_again=False)
    assert without <= both
    assert (without < both) == (source != "not read"), "and rows with events of before and after that have one"
    x_ms = -(-max(end for _, end in ends_of(job, parent)) // SIZE_MS) * SIZE_MS
    assert all(start < x_ms for _, start in both)
    said = [one for one in job.log("cutwater_spark.driver").read_text().splitlines() if "counted again" in one]
    assert said
    assert ("CUTWATER_RECOUNT_EVENTS" in said[-1]) == (source == "not read"), said
    ended(driver)
    # A restart goes on from the checkpoint: what has a value keeps it, and new rows have theirs.
    job.produce(events(1_600, 200))
    second.driver()
    newest = second.wait()[-1]
    assert_rows(job.state(newest), oracle(job, every | read_source(job)), without)  # type: ignore[arg-type]


def assert_rows(
    served: dict[tuple[str, int], dict[str, Any]],
    expected: dict[tuple[str, int], dict[str, Any]],
    without: set[tuple[str, int]],
) -> None:
    """`without`: the rows without stored values."""
    assert served.keys() == expected.keys()
    assert len(served) > 40
    nulls = 0
    for place, row in expected.items():
        shown = served[place]
        for measure in PLAIN:
            assert shown[measure] == row[measure], (measure, place)
        for measure in STORED:
            if place in without:
                assert shown[measure] is None, (measure, place)
            elif row[measure] is None:
                nulls += 1
                assert shown[measure] is None, (measure, place)
            else:
                assert shown[measure] == pytest.approx(row[measure], rel=1e-12, abs=1e-12), (measure, place)
    assert nulls, "the test must make rows in which an operand has no value"


Source = dict[tuple[int, int], dict[str, Any]]
"""The events by partition and offset."""


def read_source(job: Flow) -> Source:
    codec, found = Codec(EVENT), {}
    with closing(make_consumer(job.cluster)) as consumer:
        for partition in range(PARTITIONS):
            low, high = bounds(consumer, job.source, partition)
            for message in read_range(consumer, job.source, partition, low, high) if low < high else ():
                read = codec.decode(message.value())
                at_ms = protocol_records.millis(read.pop("at"))
                found[partition, message.offset()] = {**read, "at_ms": at_ms}
    return found


def oracle(job: Flow, every: Source | None = None) -> dict[tuple[str, int], dict[str, Any]]:
    """All events in DuckDB, by key and start of the window."""
    found = every or read_source(job)
    frame = pd.DataFrame([{**row, "place": part * 10**9 + at} for (part, at), row in found.items()])
    frame["pieces"] = frame["pieces"].astype("Int64")
    columns = ", ".join(f"{sql} as {name}" for name, sql in (PLAIN | STORED).items())
    start = f"(at_ms // {SIZE_MS} * {SIZE_MS})::BIGINT"
    rows = duckdb.sql(
        f"select shop as key, {start} as start, {columns} from frame where at_ms < {FAR_MS} group by all"
    )
    names = rows.columns
    return {(row[0], row[1]): dict(zip(names[2:], row[2:], strict=True)) for row in rows.fetchall()}


def rows_without(
    every: Source, parent: Milestone, gone: dict[int, int], counted_again: bool
) -> set[tuple[str, int]]:
    """The rows with events below and above the milestone's cut, of which those below cannot be counted again."""
    cut = cut_of(parent)
    below, above, lost = set(), set(), set()
    for (partition, offset), row in every.items():
        if row["at_ms"] == FAR_MS:
            continue
        place = row["shop"], row["at_ms"] // SIZE_MS * SIZE_MS
        (below if offset < cut.get(partition, 0) else above).add(place)
        if offset < gone.get(partition, 0):
            lost.add(place)
    return below & above & (lost if counted_again else below)


def cut_of(parent: Milestone) -> dict[int, int]:
    return {place.partition: offset for place, offset in parent.source_cut}


def ends_of(job: Flow, parent: Milestone) -> list[tuple[str, int]]:
    """Key and end of each row of the parent's state."""
    keys = Codec(PLAIN_KEY_SCHEMA)
    topic = next(iter(parent.changelog_cut))[0].topic
    found = (keys.decode_body(key, 10) for key, _ in read_all(job, topic, parent.changelog_cut))
    return [(one["key"], one["window_end"]) for one in found]
