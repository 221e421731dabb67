"""Stored values in Spark's SQL are what Python tells of the same expression and the same rows."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.sketches import HllSketches, ThetaSketches
from cutwater.core.job.derived_values import derived_measure
from cutwater.core.job.kinds.stored_values import stored_measure
from cutwater.core.job.measure_kinds import By, build
from cutwater.core.job.measures import DOUBLE, LONG, THETA, FieldType, Measure

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_HLL = HllSketches()
MONEY = FieldType("decimal", 18, 4)
MEASURES: dict[str, Measure] = {
    "n": build("n", "count", None, None, _HLL),
    "miles": build("miles", "sum", "whole", LONG, _HLL),
    "paid": build("paid", "sum", "money", MONEY, _HLL),
    "least": build("least", "min", "real", DOUBLE, _HLL),
    "most": build("most", "max", "whole", LONG, _HLL),
    "mean": build("mean", "avg", "whole", LONG, _HLL),
    "mean_money": build("mean_money", "avg", "money", MONEY, _HLL),
    "seen": build("seen", "distinct", "label", FieldType("string"), _HLL),
    "sample": build("sample", "distinct", "whole", LONG, ThetaSketches(), sketch=THETA),
    "first": build("first", "first", "real", DOUBLE, _HLL),
    "fast": build("fast", "min_by", "money", MONEY, _HLL, By("real", DOUBLE)),
}
COLUMNS = (
    "key string, whole bigint, real double, money decimal(18,4), label string, `__event_time` timestamp, "
    "`__origin` string, `__partition` int, `__offset` bigint"
)


def rows() -> list[tuple[Any, ...]]:
    """Events of forty rows: some of one event, some without a value of a field, with NaN, infinities and zeros."""
    rng, begin = random.Random(5), datetime(2026, 1, 1, tzinfo=UTC)
    reals = [0.0, -0.0, 1.5, -2.25, 0.1, 1e300, float("nan"), float("inf"), float("-inf"), None]
    return [
        (
            f"k{number % 40}",
            rng.choice([None, 0, 3, -7, 2**62, rng.randrange(-100, 100)]) if number % 40 > 3 else None,
            rng.choice(reals) if number % 7 else None,
            rng.choice([None, Decimal("0.0000"), Decimal("12.3456"), Decimal("-0.0001")]),
            rng.choice([None, "", "a", "b", f"l{rng.randrange(50)}"]),
            begin + timedelta(seconds=rng.randrange(1_000)),
            "local",
            number % 3,
            number,
        )
        for number in range(600)
    ]


def expression(rng: random.Random, depth: int) -> str:
    """One of any operators and operands."""
    if not depth or rng.random() < 0.15:
        return rng.choice([*MEASURES, "0", "2", "-1.5", "0.3", "1e3"])
    one, other, third = (expression(rng, depth - 1) for _ in range(3))
    return rng.choice(
        [
            *(f"({one} {sign} {other})" for sign in "+-*/"),
            *(f"{call}({one}, {other}, {third})" for call in ("min", "max", "coalesce")),
            f"abs({one})",
            f"-({one})",
            f"round({one}, {rng.randrange(4)})",
            f"round({one})",
        ]
    )


def test_sql_says_what_python_says(spark: SparkSession) -> None:
    """The same partials, presented by readers, and by Spark: nulls, NaN and infinities, too."""
    rng = random.Random(11)
    texts = [*MEASURES, *(text for _ in range(90) if len(text := expression(rng, 3)) <= 300)]
    wanted = {f"d{at}": text for at, text in enumerate(texts)}
    made = {name: stored_measure(name, text, MEASURES) for name, text in wanted.items()}
    partials = {part.column: part.over_events for one in MEASURES.values() for part in one.partials}
    sql = partials | {name: one.partials[0].over_events for name, one in made.items()}
    events = spark.createDataFrame(rows(), COLUMNS)
    found = events.groupBy("key").agg(*(F.expr(text).alias(f"c_{name}") for name, text in sql.items())).collect()
    assert len(found) == 40
    kinds = set()
    for row in found:
        read = {name: _plain(row[f"c_{name}"]) for name in partials}
        for name, text in wanted.items():
            mine = derived_measure(name, text, MEASURES).present(read)
            theirs = row[f"c_{name}"]
            kinds.add("null" if mine is None else "number" if math.isfinite(mine) else str(mine))
            if mine is None:
                assert theirs is None, (text, read)
            else:
                assert theirs == pytest.approx(mine, rel=1e-12, abs=1e-9, nan_ok=True), (text, read)
    assert kinds == {"null", "nan", "inf", "-inf", "number"}


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    return value.asDict() if hasattr(value, "asDict") else value
