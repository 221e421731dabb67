"""A generation with another job file, from a milestone on: its rows against DuckDB over all events.

A carried measure is exact everywhere. A new one is exact from window X on, and below it of the events after the
milestone. The driver is started with the parent's job file: it finds its own with the claim.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import candidates
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Barrier, Claim, Milestone
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.redefinition import Redefined
from cutwater.operations.generations.requests import GenerationRequest
from support.harness import Flow, flow, wait_until
from support.lineage import read_all

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]

MINUTE_MS = 60_000
START_MS = 1_700_000_000_000 // (60 * MINUTE_MS) * 60 * MINUTE_MS
EVENT = {
    "type": "record",
    "name": "Sale",
    "namespace": "test",
    "fields": [
        {"name": "shop", "type": "string"},
        {"name": "product", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "pieces", "type": "int"},
        {"name": "price", "type": "double"},
    ],
}
MEASURES = """  sales: {measure: count}
  pieces: {measure: sum, field: pieces}
  most: {measure: max, field: pieces}
  latest: {measure: last, field: product}
  products: {measure: distinct, field: product}
"""
OLD = """job: NAME
source: {topic: NAME.events, schema: event.avsc, key: [shop, product], event_time: at}
window: {kind: tumbling, size: 10m}
lateness: 40m
retention: RETENTION
partitions: 3
shuffle_partitions: 2
max_events_per_epoch: 150
measures:
MEASURES"""


@dataclass(frozen=True)
class Change:
    """A new job file, and the same in DuckDB. An event is `below` if it was below the milestone's cut."""

    edits: dict[str, str]
    carried: dict[str, str]
    """Of events that are below, or that the new job counts."""
    added: dict[str, str]
    """Of events that are not below, and that the new job counts; from window X on of all that it counts."""
    key: str
    counts: str = "true"
    size_ms: int = 10 * MINUTE_MS
    retention: str = "2d"


KEY = """'["' || shop || '","' || product || '"]'"""
LATEST = "max_by(product, at_ms::HUGEINT * 100000000000 + place)"
CHANGES = {
    "measures": Change(
        {
            MEASURES: "  fewest: {measure: min, field: pieces}\n"
            "  total: {measure: sum, field: pieces, renamed_from: pieces}\n"
            "  mean_price: {measure: avg, field: price}\n"
            "  last_product: {measure: last, field: product, renamed_from: latest}\n"
            "  sales: {measure: count}\n",
            "lateness: 40m": "lateness: 30m",
            "RETENTION": "3d",
        },
        {
            "total": "sum(pieces)",
            "sales": "count(*)",
            "last_product": "max_by(product, at_ms::HUGEINT * 100000000000 + place)",
        },
        {"fewest": "min(pieces)", "mean_price": "avg(price)"},
        KEY,
    ),
    "filter": Change(
        {
            "event_time: at": "event_time: at, where: pieces > 0, columns: {worth: pieces * price}",
            MEASURES: MEASURES + "  worth: {measure: sum, field: worth}\n",
        },
        {"sales": "count(*)", "pieces": "sum(pieces)", "most": "max(pieces)"},
        {"worth": "sum(pieces * price)"},
        KEY,
        counts="pieces > 0",
    ),
    "coarser": Change(
        {"key: [shop, product]": "key: shop", "kind: tumbling, size: 10m": "kind: tumbling, size: 30m"},
        {
            "sales": "count(*)",
            "pieces": "sum(pieces)",
            "most": "max(pieces)",
            "latest": LATEST,
            "products": "count(distinct product)",
        },
        {},
        "shop",
        size_ms=30 * MINUTE_MS,
        retention="65m",
    ),
}


def events(first: int, count: int) -> list[dict[str, Any]]:
    """Sales 10 s apart, none of them late."""
    rng = random.Random(first)
    return [
        {
            "shop": f"s{rng.randrange(4)}",
            "product": f"p{rng.randrange(5)}",
            "at": START_MS + number * 10_000 - rng.randrange(10 * MINUTE_MS),
            "pieces": rng.randrange(-5, 20),
            "price": rng.randrange(1, 400) / 4,
        }
        for number in range(first, first + count)
    ]


@pytest.fixture
def job(request: Any, broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    old = OLD.replace("NAME", unique("change")).replace("RETENTION", request.param.retention)
    with flow(broker.cluster, old.replace("MEASURES", MEASURES), tmp_path, json.dumps(EVENT)) as made:
        made.settings["CUTWATER_CATCH_UP_SHARE"] = "1"
        yield made


def claimed(job: Flow, wanted: Path, parent: Milestone) -> Claim:
    claims = Claims(job.cluster, job.job, "local", now_ms)
    redefined = Redefined.read(wanted, job.job_file, job.job)
    words = GenerationRequest(str(parent.token), None, False, "a test", redefined=redefined)
    again = claims.ask(words, UNREPLICATED, lambda _planned: None)
    assert not again.again
    assert claims.ask(words, UNREPLICATED, lambda _planned: None).claim == again.claim, "a retry is the same claim"
    other = claims.planned(words._replace(redefined=None))
    assert not other.again, "without the file it is another wish"
    return again.claim


TWICE = [(one, one) for one in CHANGES.values()]


@pytest.mark.parametrize(("job", "change"), TWICE, ids=[*CHANGES], indirect=["job"])
def test_a_generation_differs_from_its_parent(job: Flow, change: Change) -> None:
    job.produce(events(0, 900))
    signaller, driver = job.signal(), job.driver()
    job.wait_committed()
    for process in (driver, signaller):
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    parent = [one for one, _ in job.milestones() if one.events][-2]
    text = job.job_file.read_text()
    for old, new in change.edits.items():
        text = text.replace(old, new) if old != "RETENTION" else text.replace("retention: 2d", f"retention: {new}")
    wanted = job.folder / "new" / "renamed.yaml"
    wanted.parent.mkdir()
    wanted.write_text(text)
    (wanted.parent / "event.avsc").write_text(json.dumps(EVENT))
    claim = claimed(job, wanted, parent)
    known = candidates(job.cluster, job.job.name).by_id[claim.generation]
    assert known.redefinition is not None
    x_ms = known.redefinition.complete_from_ms
    assert bool(x_ms) == bool(change.added)
    job.produce(events(900, 700))
    job.driver(CUTWATER_GENERATION=str(claim.generation))
    newest = covered(job, claim)[-1]
    assert newest.definition == load_job(wanted).fingerprint != parent.definition
    assert newest.late == 0
    assert_rows(job, wanted, newest, parent, change, x_ms)


def covered(job: Flow, claim: Claim) -> list[Barrier]:
    """The candidate's barriers once they cover every event."""
    end, topic = source_end(job.cluster, job.source), topics.barriers(job.job.name)

    def own() -> list[Barrier]:
        told = (protocol_records.decode(value) for _, value in read_all(job, topic))
        found = [one for one in told if isinstance(one, Barrier) and one.generation == claim.generation]
        return found if found and found[-1].source_cut.covers(end) else []

    found: list[Barrier] = wait_until(own, f"a barrier that covers {end}; logs in {job.folder}")
    return found


def assert_rows(job: Flow, wanted: Path, newest: Barrier, parent: Milestone, change: Change, x_ms: int) -> None:
    job.job = load_job(wanted)
    served = job.state(newest)  # type: ignore[arg-type]
    above_ms = job.job.shown_above_ms(newest.horizon_ms)
    size = change.size_ms
    expected = oracle(job, parent, change, x_ms)
    above = {name: row for name, row in expected.items() if name[1] + size > above_ms}
    assert {name for name in served if name[1] + size > above_ms} == above.keys()
    assert len(above) > 15
    for name, row in above.items():
        shown = served[name]
        for measure, value in row.items():
            if isinstance(value, float):
                assert shown[measure] == pytest.approx(value), (measure, name)
            else:
                assert shown[measure] == value, (measure, name)
        assert shown.keys() == row.keys() | (shown.keys() - change.added.keys() - change.carried.keys())
    complete = sum(start >= x_ms for _, start in above)
    assert complete > 5, "the test must make windows from X on"
    assert not x_ms or complete < len(above), "and some below it"


def oracle(job: Flow, parent: Milestone, change: Change, x_ms: int) -> dict[tuple[str, int], dict[str, Any]]:
    """All events in DuckDB, by key and start of the window."""
    codec, consumer = Codec(EVENT), make_consumer(job.cluster)
    cut = {at.partition: offset for at, offset in parent.source_cut}
    rows = []
    for partition in range(3):
        low, high = bounds(consumer, job.source, partition)
        for message in read_range(consumer, job.source, partition, low, high):
            read = codec.decode(message.value())
            at = protocol_records.millis(read["at"])
            below = message.offset() < cut.get(partition, 0)
            rows.append({**read, "at_ms": at, "below": below, "place": partition * 10**9 + message.offset()})
    consumer.close()
    assert {row["below"] for row in rows} == {True, False}
    frame = pd.DataFrame(rows)
    assert len(frame) == 1_600
    carried = [f"{sql} filter (below or ({change.counts})) as {name}" for name, sql in change.carried.items()]
    late = f"({change.counts}) and (not below or at_ms >= {x_ms})"
    added = [f"{sql} filter ({late}) as {name}" for name, sql in change.added.items()]
    start = f"(at_ms // {change.size_ms} * {change.size_ms})::BIGINT"
    found = duckdb.sql(
        f"select {change.key} as key, {start} as start, {', '.join(carried + added)} from frame "
        f"where below or ({change.counts}) group by all"
    )
    names = found.columns
    return {(row[0], row[1]): dict(zip(names[2:], row[2:], strict=True)) for row in found.fetchall()}


@pytest.mark.parametrize("job", [CHANGES["measures"]], indirect=True)
def test_a_job_file_of_no_generation_is_refused(job: Flow) -> None:
    """By the driver, before it writes: the claim names the definition, and the error the difference."""
    job.produce(events(0, 200))
    signaller, driver = job.signal(), job.driver()
    parent = job.wait_committed()
    for process in (driver, signaller):
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    wanted, text = job.folder / "new.yaml", job.job_file.read_text()
    wanted.write_text(text + "  fewest: {measure: min, field: pieces}\n")
    claim = claimed(job, wanted, parent)
    job.job_file.write_text(text + "  other: {measure: min, field: price}\n")
    refused = job.driver(CUTWATER_GENERATION=str(claim.generation))
    assert refused.wait(120) == UsageError.exit_code
    said = job.log("cutwater_spark.driver").read_text()
    assert f"'cutwater generation job-file {claim.generation}'" in said
    assert "fewest" in said
