"""A job with every kind of measure over every type, and rows of it: partials to store, and what users must see.

Both are computed from the same made-up events, in plain Python: nothing here asks the measures themselves.
"""

from __future__ import annotations

import json
import math
import os
import random
from bisect import bisect_right
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from statistics import variance
from typing import Any

from datasketches import hll_sketch, kll_doubles_sketch, update_theta_sketch

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.job.job import Job
from cutwater.views.store.key_layout import Window, storage_key
from cutwater.views.store.store import Store
from support.views.changelogs import HOUR_MS

_TYPES: dict[str, Any] = {
    "flag": "boolean",
    "small": "int",
    "big": "long",
    "half": "float",
    "ratio": "double",
    "label": "string",
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "seen": {"type": "long", "logicalType": "timestamp-millis"},
    "exact": {"type": "long", "logicalType": "timestamp-micros"},
}
_SUMS = ("small", "big", "ratio", "price")
_MEAN = "mean_price"
"""An average with more digits than a double has."""
_SCALE = 20
_DISTINCT = ("label", "big")
_THETAS = {"theta_label": "label", "theta_small": "small"}
"""Their fields."""
_SPREAD = {"variance_small": "small", "stddev_price": "price", "variance_half": "half"}
"""Their fields: values whose squares have room."""
_BY = {"min_by_price": ("price", "half"), "max_by_label": ("label", "small")}
"""Their fields, and the fields that decide."""
_RANKS = {"quantile_small": "small", "quantile_half": "half", "quantile_price": "price"}
"""Their fields; each has the ranks 0, 0.5 and 1."""
_TOPS = {"top_small": "small", "top_label": "label"}
"""Their fields; each has two items."""
_DERIVED = {"spread": "max_small - min_small", "per_event": "coalesce(avg_price / events, 0)"}
_BOUNDS: dict[str, tuple[str, list[float]]] = {
    "histogram_small": ("small", [-1, 0, 7]),
    "histogram_ratio": ("ratio", [-1.5]),
    "histogram_price": ("price", [0.01, 1234.5]),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CHOICES: dict[str, list[Any]] = {
    "flag": [True, False],
    "small": [0, -1, 2**31 - 1, -(2**31)],
    "big": [0, 2**63 - 1, -(2**63), 2**53 + 1],
    "half": [0.5, -3.25, 1024.0],
    "ratio": [0.0, -1.5, 1e300, 0.1],
    "label": ["", "größe", "\U0001f600 'x' \"y\" \\", "a\nb\t\x01"],
    "price": [Decimal("-99999999.99"), Decimal("0.01"), Decimal("1234.50")],
    "seen": [_EPOCH, _EPOCH + timedelta(milliseconds=1), _EPOCH - timedelta(days=9, milliseconds=7)],
    "exact": [_EPOCH, _EPOCH + timedelta(days=20_000, microseconds=1), _EPOCH - timedelta(microseconds=1)],
}
Expected = dict[tuple[str, int, int], dict[str, Any]]
"""What users see of each (key, window start, window end)."""


def measured_job(folder: Path, tops: bool = True) -> tuple[Job, Path]:
    """`tops`: with measures whose partials hold lists, so that rows are not decoded by columns."""
    fields = [{"name": "shop", "type": "string"}, {"name": "at", "type": _TYPES["seen"]}]
    fields += [{"name": name, "type": ["null", type_], "default": None} for name, type_ in _TYPES.items()]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wide.avsc").write_text(json.dumps({"type": "record", "name": "Wide", "fields": fields}))
    measures = ["events: {measure: count}"]
    for kind in ("min", "max", "first", "last"):
        measures += [f"{kind}_{name}: {{measure: {kind}, field: {name}}}" for name in _TYPES]
    measures += [f"{kind}_{name}: {{measure: {kind}, field: {name}}}" for kind in ("sum", "avg") for name in _SUMS]
    measures += [f"{_MEAN}: {{measure: avg, field: price, scale: {_SCALE}}}"]
    measures += [f"distinct_{name}: {{measure: distinct, field: {name}}}" for name in _DISTINCT]
    measures += [f"{one}: {{measure: distinct, field: {of}, sketch: theta}}" for one, of in _THETAS.items()]
    measures += [f"{name}: {{measure: {name.partition('_')[0]}, field: {of}}}" for name, of in _SPREAD.items()]
    measures += [f"{kind}_flag: {{measure: {kind}, field: flag}}" for kind in ("every", "any")]
    measures += [f"{one}: {{measure: {one[:6]}, field: {of}, by: {by}}}" for one, (of, by) in _BY.items()]
    measures += [
        f"{one}: {{measure: histogram, field: {of}, bounds: {bounds}}}" for one, (of, bounds) in _BOUNDS.items()
    ]
    measures += [f"{one}: {{measure: quantile, field: {of}, ranks: [0, 0.5, 1]}}" for one, of in _RANKS.items()]
    if tops:
        measures += [f"{one}: {{measure: top, field: {of}, items: 2}}" for one, of in _TOPS.items()]
    name = f"measured-{os.getpid()}"
    path = folder / "measured.yaml"
    path.write_text(
        f"job: {name}\nsource: {{topic: {name}.events, schema: wide.avsc, key: shop, event_time: at}}\n"
        "window: {kind: tumbling, size: 1h}\nlateness: 1h\nretention: 24h\npartitions: 3\nmeasures:\n"
        + "".join(f"  {one}\n" for one in measures)
        + f"derived: {json.dumps(_DERIVED)}\n"
    )
    return load_job(path), path


def measured_rows(job: Job, store: Store, count: int, seed: int = 1) -> tuple[dict[bytes, bytes], Expected]:
    """Rows as a store takes them, and what users must see of each."""
    rng, codec = random.Random(seed), Codec(job.state_schema)
    columns = [one["name"] for one in job.state_schema["fields"]]
    stored: dict[bytes, bytes] = {}
    expected: Expected = {}
    for number in range(count):
        start = number % 7 * HOUR_MS
        window = Window(f"ü{number}/\x00x", start, start + HOUR_MS)
        events = [
            {name: rng.choice([None, *choices]) for name, choices in _CHOICES.items()}
            for _ in range(rng.randrange(1, 5))
        ]
        partials, expected[window] = _of(events)
        known = {name: partials[name] for name in columns}
        stored[storage_key(window, store.segment_ms)] = codec.encode(known)
    return stored, expected


def _of(events: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    partials: dict[str, Any] = {"events": len(events)}
    seen: dict[str, Any] = {"events": len(events)}
    for name in _TYPES:
        values = [(offset, one[name]) for offset, one in enumerate(events) if one[name] is not None]
        for kind, choose in (("min", min), ("max", max)):
            seen[f"{kind}_{name}"] = partials[f"{kind}_{name}"] = choose((one for _, one in values), default=None)
        for kind, choose in (("first", min), ("last", max)):
            offset, value = choose(values, default=(0, None), key=lambda pair: pair[0])
            seen[f"{kind}_{name}"] = value
            place = {"event_time": _EPOCH, "origin": "local", "partition": 0, "offset": offset, "value": value}
            partials[f"{kind}_{name}"] = None if value is None else place
        plain = [one for _, one in values]
        if name in _SUMS:
            total = sum(plain) if plain else None
            kept = Decimal(total) if name == "big" and total is not None else total
            partials |= {f"sum_{name}": kept, f"avg_{name}_sum": kept, f"avg_{name}_count": len(plain)}
            seen |= {f"sum_{name}": total, f"avg_{name}": float(total / len(plain)) if plain else None}
        if name in _DISTINCT:
            sketch = hll_sketch(12)
            for one in plain:
                sketch.update(one)
            partials[f"distinct_{name}"] = bytes(sketch.serialize_updatable()) if plain else None
            seen[f"distinct_{name}"] = len(set(plain) - {""})  # which sketches pass over
        if name == "flag":
            for kind, over in (("every", all), ("any", any)):
                seen[f"{kind}_flag"] = partials[f"{kind}_flag"] = over(plain) if plain else None
        for measure in (one for one, of in _SPREAD.items() if of == name):
            partials |= _moments(measure, plain)
            found = variance(map(Fraction, plain)) if len(plain) > 1 else None
            root = measure.startswith("stddev")
            seen[measure] = None if found is None else math.sqrt(float(found)) if root else float(found)
    decided, counts = _decided(events), _counts(events)
    partials |= decided
    partials |= {f"{one}_{bucket}": count for one, found in counts.items() for bucket, count in enumerate(found)}
    seen |= {measure: place["value"] if place else None for measure, place in decided.items()}
    sketches, found = _quantiles(events)
    samples, numbers = _thetas(events)
    seen |= numbers
    partials |= (
        sketches | samples | {f"{_MEAN}_{part}": partials[f"avg_price_{part}"] for part in ("sum", "count")}
    )
    found[_MEAN] = _exact_mean(partials["avg_price_sum"], partials["avg_price_count"])
    frequent, most_frequent = _tops(events)
    partials |= frequent
    found |= most_frequent
    least, most, price = seen["min_small"], seen["max_small"], seen["avg_price"]
    seen["spread"] = None if least is None else float(most) - float(least)
    seen["per_event"] = 0.0 if price is None else price / len(events)
    return partials, seen | counts | found


def _exact_mean(total: Decimal | None, count: int) -> Decimal | None:
    """The average, rounded half away from zero."""
    if total is None:
        return None
    whole = math.floor(abs(Fraction(total)) / count * 10**_SCALE + Fraction(1, 2))
    return Decimal(whole if total > 0 else -whole).scaleb(-_SCALE, Context(prec=40))


def _quantiles(events: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    sketches: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for measure, of in _RANKS.items():
        ordered = sorted(one[of] for one in events if one[of] is not None)
        sketch = kll_doubles_sketch(200)
        for one in ordered:
            sketch.update(float(one))
        sketches[measure] = bytes(sketch.serialize()) if ordered else None
        middle = (len(ordered) + 1) // 2 - 1
        found[measure] = [float(ordered[at]) for at in (0, middle, -1)] if ordered else None
    return sketches, found


def _thetas(events: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    sketches: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for measure, of in _THETAS.items():
        values = {one[of] for one in events if one[of] is not None}
        sketch = update_theta_sketch(12)
        for one in values:
            sketch.update(one)
        sketches[measure] = bytes(sketch.compact().serialize(True)) if values else None
        found[measure] = len(values - {""})  # which sketches pass over
    return sketches, found


def _tops(events: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    kept: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for measure, of in _TOPS.items():
        counted = Counter(one[of] for one in events if one[of] is not None)
        values = [{"value": one, "count": counted[one]} for one in sorted(counted)]
        kept[measure] = {"error": 0, "values": values} if values else None
        ordered = sorted(values, key=lambda one: (-one["count"], one["value"]))[:2]
        found[measure] = [{**one, "error": 0} for one in ordered] or None
    return kept, found


def _counts(events: list[dict[str, Any]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for measure, (of, bounds) in _BOUNDS.items():
        exact: list[Any] = [Decimal(str(one)) if of == "price" else one for one in bounds]
        counts = Counter(bisect_right(exact, one[of]) for one in events if one[of] is not None)
        found[measure] = [counts[bucket] for bucket in range(len(bounds) + 1)]
    return found


def _decided(events: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for measure, (of, by) in _BY.items():
        both = [(one[by], at, one[of]) for at, one in enumerate(events) if None not in (one[of], one[by])]
        least, at, value = (min if measure.startswith("min") else max)(both, default=(None, 0, None))
        place = {"event_time": _EPOCH, "origin": "local", "partition": 0, "offset": at, "value": value}
        found[measure] = {"by": least, **place} if both else None
    return found


def _moments(measure: str, values: list[Any]) -> dict[str, Any]:
    if measure == "variance_half":
        mean = sum(values) / len(values) if values else 0.0
        spread = float(sum((Fraction(one) - Fraction(mean)) ** 2 for one in values))
        return {measure: {"count": len(values), "mean": mean, "m2": spread} if values else None}
    squares = sum(Decimal(one) ** 2 for one in values) if values else None
    sums = {f"{measure}_sum": sum(values) if values else None, f"{measure}_squares": squares}
    return {f"{measure}_count": len(values), **sums}
