"""Bytes of what measures keep, against the sketch library, the measures' own merges, and Avro's own encoder."""

from __future__ import annotations

import random
from collections import Counter
from functools import reduce
from typing import Any

import datasketches
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.sketches import HllSketches, ThetaSketches
from cutwater.core.checks.capacity import partial_bytes
from cutwater.core.checks.event_sample import RowSizes
from cutwater.core.checks.sketch_sizes import different, sketch_bounds, sketch_bytes, values_bytes
from cutwater.core.job.kinds.frequent_items import kept_values, merge_counts
from cutwater.core.job.kinds.quantiles import KLL_K, KLL_VALUES_MAX, kll_bytes, merge_sketches
from cutwater.core.job.measure_kinds import KINDS, build
from cutwater.core.job.measures import HLL_LG_K, THETA, THETA_BYTES_MAX, THETA_LG_K, FieldType, Measure

NUMBERS = st.integers(1, 10_000)
TEXT_BYTES = 10
SIZED: dict[str, Measure] = {
    "hll": build("m", "distinct", "f", FieldType("string"), HllSketches()),
    "theta": build("m", "distinct", "f", FieldType("string"), ThetaSketches(), sketch=THETA),
    "quantile": build("m", "quantile", "f", FieldType("double"), HllSketches(), ranks=(0.5,)),
    "top": build("m", "top", "f", FieldType("string"), HllSketches(), items=5),
    "histogram": build("m", "histogram", "f", FieldType("int"), HllSketches(), bounds=(100.0, 300.0, 800.0)),
}
"""Every measure whose size depends on the number of its values."""


def partials(measure: Measure, values: list[int]) -> dict[str, Any]:
    """Return what a row has of some numbers; texts are of TEXT_BYTES."""
    if measure.kind == "quantile":
        return {"m": kll(values)}
    if measure.kind == "histogram":
        counts = Counter(sum(value >= bound for bound in (100, 300, 800)) for value in values)
        return {f"m_{at}": counts[at] for at in range(4)}
    texts = [f"{value:0{TEXT_BYTES}}" for value in values]
    if measure.kind == "top":
        counted = Counter(texts)
        row = {"error": 0, "values": [{"value": one, "count": counted[one]} for one in sorted(counted)]}
        return {"m": merge_counts(row, {"error": 0, "values": []}, kept_values(measure.length))}
    if measure.sketch == THETA:
        theta = datasketches.update_theta_sketch(THETA_LG_K)
        for one in texts:
            theta.update(one)
        theta.trim()
        return {"m": bytes(theta.compact().serialize(True))}
    hll = datasketches.hll_sketch(HLL_LG_K, datasketches.HLL_8)
    for one in texts:
        hll.update(one)
    return {"m": bytes(hll.serialize_updatable())}


def kll(values: list[int]) -> bytes:
    made = datasketches.kll_doubles_sketch(KLL_K)
    for one in values:
        made.update(float(one))
    return bytes(made.serialize())


def encoded(measure: Measure, row: dict[str, Any]) -> int:
    fields = [{"name": one.column, "type": ["null", one.avro]} for one in measure.partials]
    return len(Codec({"type": "record", "name": "Row", "fields": fields}).body(row))


def predicted(measure: Measure, events: int, values: int | None) -> float:
    kept = values_bytes(measure, events, values, TEXT_BYTES + 1)
    assert kept is not None
    return partial_bytes(measure, RowSizes(sketches={"m": kept}))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SIZED)), NUMBERS)
def test_a_row_of_different_values_has_the_size_that_its_encoder_gives_it(name: str, events: int) -> None:
    """Within a twentieth and three bytes: sketches are exact, but for the gaps between a theta sketch's hashes."""
    measure = SIZED[name]
    values = random.Random(events).sample(range(10**6), events)
    if name == "top":
        # Beyond the values that a row keeps, all of which came once, its merge keeps none.
        values = values[: kept_values(measure.length)]
    found = predicted(measure, len(values), None)
    assert found == pytest.approx(encoded(measure, partials(measure, values)), rel=0.05, abs=3)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SIZED)), NUMBERS, st.integers(1, 150))
def test_a_row_of_few_values_has_as_many_as_are_to_be_expected(name: str, events: int, values: int) -> None:
    """Each with the same chance. At an edge between two sizes of an HLL sketch one of both is right."""
    measure = SIZED[name]
    rng = random.Random(f"{events} {values}")
    row = partials(measure, [rng.randrange(values) for _ in range(events)])
    found, true = predicted(measure, events, values), encoded(measure, row)
    if name == "hll":
        near = {sketch_bytes(max(different(values, events) + by, 1)) for by in range(-6, 7)}
        assert any(abs(true - 3 - one) <= 1 for one in near)
        assert found - 3 in near
    else:
        assert found == pytest.approx(true, rel=0.2, abs=30)


@settings(max_examples=20, deadline=None)
@given(NUMBERS, st.integers(5, 500))
@example(KLL_K, 5)
def test_a_quantile_that_epochs_merge_is_about_as_large(events: int, of_epoch: int) -> None:
    """Nine of ten within a seventh: it is compressed at other moments. Up to 200 values it has all of them."""
    values = random.Random(events).sample(range(10**6), events)
    parts = [values[at : at + of_epoch] for at in range(0, events, of_epoch)]
    theirs = datasketches.kll_doubles_sketch(KLL_K)
    for part in parts:
        theirs.merge(datasketches.kll_doubles_sketch.deserialize(kll(part)))
    assert len(theirs.serialize()) == pytest.approx(kll_bytes(events), rel=0.6)
    mine = reduce(merge_sketches, map(kll, parts))
    assert len(mine) == pytest.approx(kll_bytes(events), rel=0 if events <= KLL_K else 0.6)


@pytest.mark.parametrize("distinct", [0, 1, 7, 8, 24, 25, 48, 49, 96, 97, 192, 193, 384, 385, 3_000])
def test_a_sketch_has_the_size_that_the_library_gives_it(distinct: int) -> None:
    """As a list, as a set that doubles, and in full."""
    sketch = datasketches.hll_sketch(HLL_LG_K, datasketches.HLL_8)
    for number in range(distinct):
        sketch.update(str(number))
    assert sketch_bytes(distinct) == len(sketch.serialize_updatable())


@pytest.mark.parametrize("distinct", [1, 2, 100, 4_096, 4_097, 100_000])
def test_a_theta_sketch_is_compressed(distinct: int) -> None:
    """Its hashes by a fifth, and there are no more than 4,096."""
    sketch = datasketches.update_theta_sketch(THETA_LG_K)
    for number in range(distinct):
        sketch.update(number)
    sketch.trim()
    assert sketch_bytes(distinct, THETA) == pytest.approx(len(sketch.compact().serialize(True)), rel=0.03)
    assert len(sketch.compact().serialize()) <= THETA_BYTES_MAX


def test_quantile_sketches_to_the_last_byte() -> None:
    """Up to ten thousand values, and at some larger numbers; beyond them they hardly grow."""
    made, rng = datasketches.kll_doubles_sketch(KLL_K), random.Random(1)
    assert kll_bytes(0) == len(made.serialize())
    for number in range(1, 60_001):
        made.update(rng.random())
        if number <= 10_000 or number % 997 == 0:
            assert kll_bytes(number) == len(made.serialize()), number
    assert kll_bytes(10**9) == kll_bytes(KLL_VALUES_MAX)


def test_every_measure_is_sized_or_has_one_size() -> None:
    """A new kind is sorted into one of the two."""
    one_size = {"count", "sum", "min", "max", "avg", "first", "last", "variance", "stddev", "every", "any"}
    one_size |= {"min_by", "max_by"}
    assert one_size | {one.kind for one in SIZED.values()} == set(KINDS)
    for kind in one_size - {"every", "any", "min_by", "max_by"}:
        measure = build("m", kind, "f", FieldType("int"), HllSketches())
        assert values_bytes(measure, 5, None, TEXT_BYTES) is None


@given(NUMBERS, st.none() | NUMBERS)
def test_sizes_are_within_the_bounds_that_plan_tells(events: int, values: int | None) -> None:
    for name in ("hll", "theta"):
        least, most = sketch_bounds(SIZED[name])
        assert least <= (values_bytes(SIZED[name], events, values, TEXT_BYTES) or 0) <= most
    assert 1 <= different(values, events) <= min(events, values or events)
