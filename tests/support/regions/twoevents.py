"""Two regions that each aggregate events of their own, for tests of the global view; DuckDB knows the whole."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pandas
from datasketches import hll_sketch, tgt_hll_type

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.job.measures import HLL_LG_K
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from support.naming import unique
from support.views.changelogs import HOUR_MS, Writing

_EVENT = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "shop", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "pieces", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "visitor", "type": "string"},
    ],
}
_JOB = """
job: {name}
source: {{topic: {name}.events, schema: sale.avsc, key: shop, event_time: at}}
window: {{kind: tumbling, size: 1h}}
lateness: 1h
retention: 24h
partitions: 3
measures:
  sales: {{measure: count}}
  pieces: {{measure: sum, field: pieces}}
  takings: {{measure: sum, field: price}}
  mean: {{measure: avg, field: price}}
  least: {{measure: min, field: pieces}}
  most: {{measure: max, field: pieces}}
  opened: {{measure: first, field: visitor}}
  closed: {{measure: last, field: visitor}}
  visitors: {{measure: distinct, field: visitor}}
"""


class Event(NamedTuple):
    """One sale. Place is unique in all regions, times are not."""

    region: str
    shop: str
    at_ms: int
    partition: int
    offset: int
    pieces: int
    cents: int
    visitor: str


class Row(NamedTuple):
    """A row of one region's state."""

    shop: str
    hour: int
    pieces: int
    partials: dict[str, Any]


def make_job(folder: Path) -> tuple[Job, Path]:
    """A job with every kind of measure, and its file."""
    name = unique("both")
    (folder / "sale.avsc").write_text(json.dumps(_EVENT))
    path = folder / f"{name}.yaml"
    path.write_text(_JOB.format(name=name))
    return load_job(path), path


class Region(Writing):
    """A region's own job over its own events."""

    def __init__(self, cluster: Cluster, job: Job, region: str, seed: int) -> None:
        self.region = region
        self.events: list[Event] = []
        self._random = random.Random(seed)
        self._from: dict[str, Any] = {}
        self._codecs = Codec(WINDOW_KEY_SCHEMA), Codec(job.state_schema)
        super().__init__(cluster, job)

    def _make(self, generation: Generation) -> None:
        super()._make(Generation(generation.number, self.region, generation.parent))

    def take_over(self, parent: Milestone, generation: Generation) -> None:
        """Go on from another region's milestone, whose rows are empty: with the sequence behind it."""
        self._make(generation)
        self._from = {"sequence": parent.sequence + 1, "parent_hash": protocol_records.hash_of(parent)}

    def _framed(self, sold: Any) -> tuple[bytes, bytes]:
        keys, values = self._codecs
        start = sold.hour * HOUR_MS
        key = keys.encode({"key": sold.shop, "window_start": start, "window_end": start + HOUR_MS})
        return key, values.encode(sold.partials)

    def sell(self, count: int, shops: Iterable[str], hours: range, of: str = "", **changes: Any) -> str:
        """So many events more, aggregated, as one milestone; its token. `of`: the region that they stand in."""
        choose, shops = self._random, list(shops)
        new = [
            Event(
                of or self.region,
                choose.choice(shops),
                choose.choice(hours) * HOUR_MS + choose.randrange(20) * 60_000,
                number % 2,
                number,
                choose.randrange(1, 100),
                choose.randrange(1, 100_000),
                f"v{choose.randrange(60)}",
            )
            for number in range(len(self.events), len(self.events) + count)
        ]
        self.events += new
        touched = {(one.shop, one.at_ms // HOUR_MS) for one in new}
        changes, self._from = {**self._from, **changes}, {}
        return str(self.epoch([self._row(*at) for at in sorted(touched)], **changes).token)

    def _row(self, shop: str, hour: int) -> Row:
        theirs = [one for one in self.events if (one.shop, one.at_ms // HOUR_MS) == (shop, hour)]
        pieces = sum(one.pieces for one in theirs)
        takings = Decimal(sum(one.cents for one in theirs)).scaleb(-2)
        order = sorted(theirs, key=lambda one: (one.at_ms, one.region, one.partition, one.offset))
        sketch = hll_sketch(HLL_LG_K, tgt_hll_type.HLL_8)
        for one in theirs:
            sketch.update(one.visitor)
        partials = {
            "sales": len(theirs),
            "pieces": pieces,
            "takings": takings,
            "mean_sum": takings,
            "mean_count": len(theirs),
            "least": min(one.pieces for one in theirs),
            "most": max(one.pieces for one in theirs),
            "opened": _placed(order[0]),
            "closed": _placed(order[-1]),
            "visitors": bytes(sketch.serialize_updatable()),
        }
        return Row(shop, hour, pieces, partials)


def _placed(one: Event) -> dict[str, Any]:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=one.at_ms)
    place = {"event_time": at, "origin": one.region, "partition": one.partition, "offset": one.offset}
    return {**place, "value": one.visitor}


def oracle(*regions: Region, above_ms: int = 0) -> dict[tuple[str, int], tuple[Any, ...]]:
    """By (shop, window start): what DuckDB makes of all their events together."""
    events = pandas.DataFrame([one for region in regions for one in region.events], columns=Event._fields)
    with duckdb.connect() as db:
        db.register("events", events)
        rows = db.execute(
            f"""
            SELECT shop, at_ms // {HOUR_MS} * {HOUR_MS} AS start, count(*), sum(pieces), sum(cents),
              avg(cents) / 100, min(pieces), max(pieces),
              first(visitor ORDER BY at_ms, region, "partition", "offset"),
              last(visitor ORDER BY at_ms, region, "partition", "offset"), count(DISTINCT visitor)
            FROM events WHERE at_ms // {HOUR_MS} * {HOUR_MS} + {HOUR_MS} > {above_ms} GROUP BY 1, 2
            """
        ).fetchall()
    return {
        (shop, int(start)): (sales, pieces, int(cents), round(mean, 6), *more)
        for shop, start, sales, pieces, cents, mean, *more in rows
    }


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row of an answer, in the oracle's terms."""
    cents = int(Decimal(str(row["takings"])) * 100)
    names = ("least", "most", "opened", "closed", "visitors")
    return row["sales"], row["pieces"], cents, round(row["mean"], 6), *(row[name] for name in names)
