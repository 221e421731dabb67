"""A job with every measure, its events, and its windows by DuckDB."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import pytest

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Reading",
        "namespace": "test",
        "fields": [
            {"name": "sensor", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "small", "type": ["null", "int"]},
            {"name": "big", "type": ["null", "long"]},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "ratio", "type": "double"},
            {"name": "label", "type": ["null", "string"]},
        ],
    }
)
_MOST = (
    "list_transform(list_slice(list_sort(list_transform(map_entries(histogram({0})), "
    "lambda e: {{'less': -(e.value::BIGINT), 'value': e.key}})), 1, {1}), "
    "lambda e: {{'value': e.value, 'count': -e.less, 'error': 0}})"
)
"""The most frequent values, the least first of equally frequent ones."""
MEASURES = {
    "count": "count(*)",
    "count_small": "count(small)",
    "sum_small": "sum(small)::BIGINT",
    "sum_big": "sum(big)",
    "sum_price": "sum(price)",
    "sum_ratio": "sum(ratio)",
    "min_small": "min(small)",
    "min_label": "min(label)",
    "max_big": "max(big)",
    "max_ratio": "max(ratio)",
    "avg_small": "avg(small)",
    "avg_price": "avg(price::DOUBLE)",
    "mean_price": "(sign(sum(price)) * ((abs(sum((price * 100)::HUGEINT)) * 200 + count(*)) // (2 * count(*))))"
    "::DECIMAL(20,0) * 0.0001::DECIMAL(5,4)",
    "first_label": "first(label ORDER BY at_ms, position) FILTER (label IS NOT NULL)",
    "last_small": "last(small ORDER BY at_ms, position) FILTER (small IS NOT NULL)",
    "distinct_label": "count(DISTINCT label)",
    "distinct_big": "count(DISTINCT big)",
    "theta_label": "count(DISTINCT label)",
    "theta_small": "count(DISTINCT small)",
    "variance_small": "var_samp(small)",
    "stddev_price": "stddev_samp(price::DOUBLE)",
    "variance_ratio": "var_samp(ratio)",
    "max_by_label": "last(label ORDER BY small, at_ms, position) FILTER (label IS NOT NULL AND small IS NOT NULL)",
    "quantile_small": "CASE WHEN count(small) > 0 THEN "
    "[min(small), quantile_disc(small, 0.5), quantile_disc(small, 0.95), max(small)] END",
    "derived_ratio": "sum(ratio) / count(*)",
    "histogram_small": "[count(*) FILTER (small < -10), count(*) FILTER (small >= -10 AND small < 50), "
    "count(*) FILTER (small >= 50)]",
    "histogram_price": "[count(*) FILTER (price < -5000.5), count(*) FILTER (price >= -5000.5 AND price < 0), "
    "count(*) FILTER (price >= 0 AND price < 12.25), count(*) FILTER (price >= 12.25)]",
    "top_label": _MOST.format("label", 5),
    "top_small": _MOST.format("small", 3),
    "min_by_big": "first(big ORDER BY ratio, at_ms, position) FILTER (big IS NOT NULL)",
}
DECLARED = {
    "theta_label": "measure: distinct, field: label, sketch: theta",
    "theta_small": "measure: distinct, field: small, sketch: theta",
    "mean_price": "measure: avg, field: price, scale: 4",
    "max_by_label": "measure: max_by, field: label, by: small",
    "min_by_big": "measure: min_by, field: big, by: ratio",
    "histogram_small": "measure: histogram, field: small, bounds: [-10, 50]",
    "quantile_small": "measure: quantile, field: small, ranks: [0, 0.5, 0.95, 1]",
    "top_label": "measure: top, field: label, items: 5",
    "top_small": "measure: top, field: small, items: 3",
    "histogram_price": "measure: histogram, field: price, bounds: [-5000.5, 0, 12.25]",
}
"""Those that need more than a field; of the others the name tells kind and field."""
DERIVED = {"derived_ratio": "sum_ratio / count"}
WINDOWS = {"tumbling": (60_000, 60_000), "sliding": (60_000, 20_000)}
SEED = 20131


def events() -> list[dict[str, Any]]:
    """3,000 readings of 20 sensors, in no order of time within ten minutes, with nulls and extreme values."""
    rng = random.Random(SEED)
    made = []
    for _ in range(3_000):
        made.append(
            {
                "sensor": f"s{rng.randrange(20)}",
                "at": 1_700_000_000_000 + rng.randrange(600_000),
                "small": rng.choice([None, rng.randrange(-100, 100), 2**31 - 1, -(2**31)]),
                "big": rng.choice([None, rng.randrange(50), 2**63 - 1, -(2**63)]),
                "price": Decimal(rng.randrange(-9_999_999, 9_999_999)).scaleb(-2),
                "ratio": rng.uniform(-1e6, 1e6),
                "label": rng.choice([None, f"l{rng.randrange(300)}", "größe", ""]),
            }
        )
    return made


def job_text(name: str, kind: str, chosen: Iterable[str] = MEASURES) -> str:
    measures = []
    for measure in (one for one in chosen if one not in DERIVED):
        measure_kind, _, field = measure.partition("_")
        plain = f"measure: {measure_kind}" + (f", field: {field}" if field else "")
        declared = DECLARED.get(measure, plain)
        measures.append(f"  {measure}: {{{declared}}}")
    size, slide = WINDOWS[kind]
    window = f"{{kind: {kind}, size: {size}ms" + (f", slide: {slide}ms}}" if kind == "sliding" else "}")
    return (
        f"job: {name}\nsource: {{topic: {name}.events, schema: event.avsc, key: sensor, event_time: at}}\n"
        f"window: {window}\nlateness: 1h\nretention: 30d\npartitions: 3\nmax_events_per_epoch: 1000\n"
        "measures:\n" + "\n".join(measures) + "\n"
        f"derived: {json.dumps({one: text for one, text in DERIVED.items() if one in chosen})}\n"
    )


def oracle(made: list[dict[str, Any]], kind: str) -> dict[tuple[str, int], dict[str, Any]]:
    size, slide = WINDOWS[kind]
    frame = pd.DataFrame(made).rename(columns={"at": "at_ms"})
    frame["small"] = frame["small"].astype("Int64")
    frame["big"] = pd.Series([one["big"] for one in made], dtype="Int64")
    frame["position"] = range(len(frame))
    columns = ", ".join(f"{sql} AS {name}" for name, sql in MEASURES.items())
    starts = f"at_ms - at_ms % {slide} - step * {slide}"
    query = (
        f"SELECT sensor, {starts} AS start, {columns} "
        f"FROM frame, range({size // slide}) AS steps(step) WHERE at_ms - ({starts}) < {size} GROUP BY ALL"
    )
    relation = duckdb.sql(query)
    names = relation.columns
    return {(row[0], row[1]): dict(zip(names[2:], row[2:], strict=True)) for row in relation.fetchall()}


def agree(measure: str, mine: Any, theirs: Any) -> bool:
    """Equal; sketches within their stated error, floating point but for the order of its additions."""
    if measure.startswith("distinct"):
        return bool(abs(mine - theirs) <= max(1, 0.05 * theirs))
    if theirs is not None and (
        measure == "sum_ratio" or measure.startswith(("avg", "variance", "stddev", "derived"))
    ):
        return mine == pytest.approx(theirs, rel=1e-9, abs=1e-6)
    return bool(mine == theirs)
