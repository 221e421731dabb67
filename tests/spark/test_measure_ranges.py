"""No event ends the query: each measure over the whole range of its types, and bytes that are no text."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from statistics import variance
from typing import Any

import duckdb
import pandas as pd
import pytest
from datasketches import update_theta_sketch
from pyspark.sql import DataFrame, SparkSession

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.sketches import ThetaSketches
from cutwater.core.errors import UsageError
from cutwater.core.events.rejection import NO_ROOM, TOO_FAR_BEHIND, UNDECODABLE, Flaw
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.job.measure_kinds import KINDS
from cutwater.core.job.measures import SEED, THETA_BYTES_MAX, THETA_LG_K, merged_row
from cutwater.core.job.row_room import text_bytes_max
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.generation import Generation
from cutwater.operations.event_sample import judge_records
from cutwater.operations.topic_sample import Sample
from cutwater_spark.query.decoding import decode
from cutwater_spark.query.query import aggregate, changelog_rows
from cutwater_spark.query.query import decode as usable
from cutwater_spark.session import configuration
from support.events import wide

pytestmark = pytest.mark.spark
AT = 1_700_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def digits(precision: int, scale: int) -> list[Decimal]:
    return [Decimal((sign, (9,) * precision, -scale)) for sign in (0, 1)] + [
        Decimal((0, (d,), -scale)) for d in (0, 1)
    ]


SET_OPERATIONS = [
    ("ab", "", ""),
    ("a", "b", ""),
    ("ab", "c", "d"),
    ("c", "d", ""),
    ("cd", "", "ab"),
    ("c", "d", "ab"),
    ("a", "d", ""),
]
"""Keys of three sets: of any, in every, in none."""
RANGES: dict[str, tuple[Any, list[Any]]] = {
    "flag": ("boolean", [True, False]),
    "small": ("int", [2**31 - 1, -(2**31), 0]),
    "big": ("long", [2**63 - 1, -(2**63), 0]),
    "half": ("float", [3.4e38, -3.4e38, 1e-45, float("nan"), float("inf"), float("-inf")]),
    "ratio": ("double", [1.7e308, -1.7e308, 5e-324, float("nan"), float("inf"), float("-inf")]),
    "label": ("string", ["", "\0", "\U0010ffff", "x" * 70_000]),
    "kind": (wide.TYPES["kind"], ["a", "true"]),
    "blob": ("bytes", [b"", b"\xff\xfe", b"\0" * 70_000]),
    "d9": (decimal(9, 2), digits(9, 2)),
    "d28": (decimal(28, 10), digits(28, 10)),
    "d38": (decimal(38, 18), [*digits(38, 18), Decimal("9999999999.5"), Decimal("12345678901.25")]),
    "whole": (decimal(38, 0), digits(38, 0)),
    "seen": (wide.TYPES["seen"], [_EPOCH, datetime(9799, 12, 31, tzinfo=UTC), datetime(200, 1, 1, tzinfo=UTC)]),
    "exact": (wide.TYPES["exact"], [_EPOCH - timedelta(microseconds=1), datetime(9799, 12, 31, tzinfo=UTC)]),
}
_SUMMED = {"d38": Decimal(10) ** 10, "whole": Decimal(10) ** 28}
"""What one event may add to a sum of these is below this; sums of other types take any value."""
_TOO_WIDE = ("big", "d28", "d38", "whole")
"""Their squares have no room in a sum."""


_MORE = {
    "min_by": ", by: ratio",
    "max_by": ", by: ratio",
    "histogram": ", bounds: [-1, 0, 5]",
    "quantile": ", ranks: [0, 1]",
    "top": ", items: 3",
}
"""What these kinds need besides a field."""


def schema_of(kinds: dict[str, Any]) -> dict[str, Any]:
    place = {"key": "string", "at": wide.TYPES["seen"], **kinds}
    fields = [{"name": name, "type": type_} for name, type_ in place.items()]
    return {"type": "record", "name": "Event", "namespace": "test", "fields": fields}


def job_of(folder: Path, kinds: dict[str, Any], measures: str, source: str = "format: avro") -> Job:
    wide.job(folder, schema_of(kinds), source)
    (folder / "job.yaml").write_text(wide.job_text("ranges", source, measures), encoding="utf-8")
    return load_job(folder / "job.yaml")


def raw(spark: SparkSession, values: list[bytes], written_ms: int = AT) -> DataFrame:
    """Records as Kafka's source has them."""
    rows = [(number, bytearray(value)) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, "offset long, value binary").selectExpr(
        "cast(null as binary) as key", "value", "'t' as topic", "0 as partition", "offset",
        f"timestamp_millis({written_ms}L) as timestamp",
        "cast(null as array<struct<key: string, value: binary>>) as headers",
    ).coalesce(1)  # fmt: skip


def rows_of(frame: DataFrame, job: Job) -> dict[str, dict[str, Any]]:
    """What readers of the changelog make of it, by key."""
    writer, codec = Writer(Generation(1, "local"), 1, 1), Codec(job.state_schema)
    keys = Codec(WINDOW_KEY_SCHEMA)
    found = changelog_rows(frame, job, writer, codec.header).collect()
    return {keys.decode(bytes(row["key"]))["key"]: codec.decode(bytes(row["value"])) for row in found}


@pytest.mark.slow
def test_each_measure_over_the_whole_range_of_its_types(spark: SparkSession, tmp_path: Path) -> None:
    """Every value that the type holds is counted or rejected by name; a seed of the same rows doubles each sum."""
    kinds = {name: type_ for name, (type_, _) in RANGES.items()}
    measures = [
        f"{kind}_{name}: {{measure: {kind}, field: {name}{_MORE.get(kind, '')}}}"
        for name in kinds
        for kind in KINDS
        if (kind, name) in allowed()
    ]
    job = job_of(tmp_path, kinds, ", ".join(measures))
    rng = random.Random(7)
    made = [
        {"key": f"k{number % 5}", "at": AT, **{name: rng.choice(values) for name, (_, values) in RANGES.items()}}
        for number in range(400)
    ]
    values = [Codec(job.event_schema).encode(one) for one in made]
    frame = raw(spark, values)
    told = decode(frame, job, known_schemas(job, None), only("t", "local"), explained=True)
    why = {row["offset"]: row for row in told.selectExpr("offset", "__reason", "__flaw").collect()}
    for number, event in enumerate(made):
        beyond = [name for name, most in _SUMMED.items() if abs(event[name]) >= most]
        assert why[number]["__reason"] == (NO_ROOM if beyond else None), (why[number], event)
        assert not beyond or why[number]["__flaw"]["field"] == beyond[0]
    events = usable(frame, job, known_schemas(job, None), only("t", "local"))
    alone = aggregate(events, job)
    once = rows_of(alone, job)
    partials = [partial.column for measure in job.measures for partial in measure.partials]
    seed = alone.selectExpr("__window", "__key", f"struct({', '.join(f'`{one}`' for one in partials)}) as {SEED}")
    twice = rows_of(aggregate(events, job, seed), job)
    counted = [event for number, event in enumerate(made) if why[number]["__reason"] is None]
    assert len(counted) > 50
    for key in {event["key"] for event in counted}:
        mine = [event for event in counted if event["key"] == key]
        for name in ("small", "big", "d9", "d28", "d38", "whole"):
            with localcontext(prec=80):
                total = sum((Decimal(event[name]) for event in mine), Decimal(0))
                assert (once[key][f"sum_{name}"], twice[key][f"sum_{name}"]) == (total, total * 2)
        shown = {one.name: one.present(twice[key]) for one in job.measures}
        assert shown["count_small"] == 2 * len(mine)
        for name in ("small", "d9"):
            twofold = [event[name] for event in mine] * 2
            assert shown[f"variance_{name}"] == pytest.approx(float(variance(map(Fraction, twofold))), rel=1e-12)
            assert shown[f"stddev_{name}"] == math.sqrt(shown[f"variance_{name}"])
        ordered = sorted(mine, key=lambda event: (math.isnan(event["ratio"]), event["ratio"]))
        for name in ("label", "small", "whole"):  # sorting is stable: of equal ones the offset decides
            assert (shown[f"min_by_{name}"], shown[f"max_by_{name}"]) == (ordered[0][name], ordered[-1][name])
        for name in ("small", "big", "half", "ratio", "d9", "d38", "whole"):
            assert shown[f"histogram_{name}"] == [2 * one for one in buckets([event[name] for event in mine])]
            numbers = [float(event[name]) for event in mine if not math.isnan(event[name])]
            ends = [min(numbers), max(numbers)] if numbers else None
            assert shown[f"quantile_{name}"] == (pytest.approx(ends) if ends else None), name
        flags = [event["flag"] for event in mine]
        assert (shown["every_flag"], shown["any_flag"]) == (all(flags), any(flags))
        for name in ("small", "big", "kind"):
            often = Counter(event[name] for event in mine)
            most = sorted(often.items(), key=lambda one: (-one[1], one[0]))[:3]
            assert shown[f"top_{name}"] == [{"value": one, "count": 2 * n, "error": 0} for one, n in most]
        assert shown["distinct_label"] == len({event["label"] for event in mine})
        assert shown["distinct_blob"] == len({event["blob"] for event in mine})


def buckets(values: list[Any]) -> list[int]:
    """Of the bounds -1, 0 and 5; what is no number is behind all of them."""
    found = Counter(3 if one != one else bisect_right([-1, 0, 5], one) for one in values)  # noqa: PLR0124
    return [found[number] for number in range(4)]


def test_kinds_with_parameters_over_events_and_a_seed(spark: SparkSession, tmp_path: Path) -> None:
    """Events alone, with a seed, a seed alone, and two rows merged without Spark; nulls and NaN are among them."""
    kinds = {"label": ["null", "string"], "ratio": ["null", "double"], "price": ["null", decimal(9, 2)]}
    measures = (
        "most: {measure: max_by, field: label, by: ratio}, least: {measure: min_by, field: label, by: price}, "
        "counts: {measure: histogram, field: price, bounds: [-0.5, 0, 12.25]}, "
        "ranks: {measure: quantile, field: ratio, ranks: [0, 0.5, 1]}, "
        "often: {measure: top, field: label, items: 3}"
    )
    job, rng = job_of(tmp_path, kinds, measures), random.Random(11)
    made: list[dict[str, Any]] = [
        {
            "key": f"k{number % 2}",
            "at": AT + number % 7,
            "label": rng.choice([None, f"l{number}", "often"]),
            "ratio": rng.choice([None, math.nan, rng.random(), rng.random()]),
            "price": rng.choice([None, Decimal(rng.randrange(-300, 2_000)).scaleb(-2)]),
        }
        for number in range(2_000)
    ]
    made.append({"key": "none", "at": AT, "label": "x", "ratio": None, "price": None})
    frame = raw(spark, [Codec(job.event_schema).encode(one) for one in made])
    events = usable(frame, job, known_schemas(job, None), only("t", "local"))
    alone = aggregate(events, job)
    partials = ", ".join(f"`{partial.column}`" for measure in job.measures for partial in measure.partials)
    seed = alone.selectExpr("__window", "__key", f"struct({partials}) as {SEED}")
    once = rows_of(alone, job)
    twice = rows_of(aggregate(events.where("__key != 'k1'"), job, seed), job)
    for key in ("k0", "k1"):
        mine = [event for event in made if event["key"] == key]
        times = 1 if key == "k1" else 2  # it is in the seed alone
        shown = {one.name: one.present(twice[key]) for one in job.measures}
        by_ratio = [(math.isnan(one["ratio"]), one["ratio"], one["at"], at, one["label"])
                    for at, one in enumerate(mine) if one["label"] and one["ratio"] is not None]  # fmt: skip
        assert shown["most"] == max(one if not one[0] else (True, 0, *one[2:]) for one in by_ratio)[-1]
        by_price = [(one["price"], one["at"], at, one["label"])
                    for at, one in enumerate(mine) if one["label"] and one["price"] is not None]  # fmt: skip
        assert shown["least"] == min(by_price)[-1]
        found = Counter(bisect_right([Decimal("-0.5"), 0, Decimal("12.25")], one["price"])
                        for one in mine if one["price"] is not None)  # fmt: skip
        assert shown["counts"] == [found[number] * times for number in range(4)]
        ratios = sorted(one["ratio"] for one in mine if one["ratio"] is not None and not math.isnan(one["ratio"]))
        labels = Counter(event["label"] for event in mine if event["label"])
        check_often(shown.pop("often"), labels, times)
        assert (shown["ranks"][0], shown["ranks"][2]) == (ratios[0], ratios[-1])
        assert abs(bisect_right(ratios, shown["ranks"][1]) / len(ratios) - 0.5) < 0.03
        merged = merged_row(job.measures, once[key], twice[key])
        both = {one.name: one.present(merged) for one in job.measures}
        check_often(both.pop("often"), labels, times + 1)
        assert both == shown | {
            "counts": [found[number] * (times + 1) for number in range(4)],
            "ranks": [ratios[0], pytest.approx(shown["ranks"][1], abs=0.06), ratios[-1]],
        }
    nothing = {"most": None, "least": None, "counts": [0] * 4, "ranks": None}
    nothing["often"] = [{"value": "x", "count": 2, "error": 0}]
    assert {one.name: one.present(twice["none"]) for one in job.measures} == nothing


def check_often(shown: list[dict[str, Any]], labels: Counter[str], times: int) -> None:
    """Of hundreds of values a row keeps 192. The error is told, and the true numbers are within it."""
    [told] = {one["error"] for one in shown}
    assert 0 < told <= sum(labels.values()) * times * 2 * 3.5 / 256
    for one in shown:
        assert one["count"] <= labels[one["value"]] * times <= one["count"] + told, one
    assert shown[0]["value"] == "often"


def allowed() -> set[tuple[str, str]]:
    """(measure, field) of those that a job file may have."""
    plain = {"kind": "string", "d9": "decimal", "d28": "decimal", "d38": "decimal", "whole": "decimal"}
    plain |= {"seen": "timestamp-millis", "exact": "timestamp-micros"}
    return {(kind, name) for kind, (types, _) in KINDS.items() for name in RANGES
            if plain.get(name, RANGES[name][0]) in types
            and not (kind in ("variance", "stddev") and name in _TOO_WIDE)
            and (kind, name) != ("top", "label")}  # fmt: skip


def test_a_sum_without_room_is_refused_in_the_job_file(tmp_path: Path) -> None:
    """Of a decimal with 28 digits or more behind the point nothing is left for a sum: an error at the start."""
    with pytest.raises(UsageError, match=r"decimal\(38,30\).*allowed scales: below 28"):
        job_of(tmp_path, {"d": decimal(38, 30)}, "s: {measure: sum, field: d}")


def test_a_square_without_room_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    """What the variance of whole and decimal numbers takes; a scale of 14 digits is refused in the job file."""
    kinds = {"big": "long", "d28": decimal(28, 10), "d14": decimal(14, 13)}
    measures = ", ".join(f"v_{name}: {{measure: variance, field: {name}}}" for name in kinds)
    job = job_of(tmp_path, kinds, measures)
    most = {"big": 10**14 - 1, "d28": Decimal(10**14 - 1).scaleb(-10), "d14": Decimal("9.9999999999999")}
    beyond = {"big": -(10**14), "d28": Decimal(10**14).scaleb(-10), "d14": None}
    made = [{"key": "a", "at": AT, **most}, {"key": "a", "at": AT, **{name: -one for name, one in most.items()}}]
    made += [{"key": "a", "at": AT, **most, name: one} for name, one in beyond.items() if one is not None]
    frame = raw(spark, [Codec(job.event_schema).encode(one) for one in made])
    told = decode(frame, job, known_schemas(job, None), only("t", "local"), explained=True)
    flaws = {row["offset"]: row["__flaw"] for row in told.selectExpr("offset", "__flaw").collect()}
    assert [flaws[number]["field"] if flaws[number] else None for number in range(4)] == [None, None, "big", "d28"]
    found = rows_of(aggregate(usable(frame, job, known_schemas(job, None), only("t", "local")), job), job)["a"]
    for measure in job.measures:
        one = Fraction(most[str(measure.field)])
        assert measure.present(found) == float(2 * one * one), "of one value and its opposite"
    with pytest.raises(
        UsageError, match=r"variance of field 'd', which is decimal\(20,14\).*allowed scales: below 14"
    ):
        job_of(tmp_path, {"d": decimal(20, 14)}, "s: {measure: variance, field: d}")


def test_distinct_counts_the_empty_value(spark: SparkSession, tmp_path: Path) -> None:
    """The sketch library leaves out what is empty; a sketch of before, without it, merges with one of now."""
    job = job_of(tmp_path, {"label": ["null", "string"]}, "d: {measure: distinct, field: label}")
    by_key: dict[str, list[str | None]] = {"a": ["", "a", "a", " ", None], "b": [""], "c": ["a", " "], "d": [None]}
    codec = Codec(job.event_schema)
    values = [
        codec.encode({"key": key, "at": AT, "label": one}) for key, labels in by_key.items() for one in labels
    ]
    events = usable(raw(spark, values), job, known_schemas(job, None), only("t", "local"))
    found = rows_of(aggregate(events, job), job)
    (measure,) = job.measures
    assert {key: measure.present(row) for key, row in found.items()} == {"a": 3, "b": 1, "c": 2, "d": 0}
    before = events.groupBy("__key").agg(*[_sql("hll_sketch_agg(label, 12)", "d")]).collect()
    old = {row["__key"]: bytes(row["d"]) if row["d"] is not None else None for row in before}
    assert measure.present({"d": old["a"]}) == 2
    (partial,) = measure.partials
    assert measure.present({"d": partial.merge(old["a"], found["a"]["d"])}) == 3


@pytest.mark.slow
def test_theta_sets_over_events_and_a_seed(spark: SparkSession, tmp_path: Path) -> None:
    """Shared values of keys against DuckDB: exact up to 4,096 of them, and within the bounds above."""
    kinds = {"label": ["null", "string"], "big": ["null", "long"], "blob": ["null", "bytes"]}
    measures = (f"{one}: {{measure: distinct, field: {one}, sketch: theta}}" for one in kinds)
    job = job_of(tmp_path, kinds, ", ".join(measures))
    spans = {"a": (0, 3_000), "b": (2_000, 4_000), "c": (0, 5_000), "d": (3_000, 8_000)}
    made: list[dict[str, Any]] = [
        {
            "key": key,
            "at": AT + number % 7,
            "label": f"l{number}" if number else "",
            "big": -number,
            "blob": b"%d" % number if number else b"",
        }
        for key, (first, end) in spans.items()
        for number in (*range(first, end), first)
    ]
    made.append({"key": "none", "at": AT, **dict.fromkeys(kinds)})
    frame = raw(spark, [Codec(job.event_schema).encode(one) for one in made])
    events = usable(frame, job, known_schemas(job, None), only("t", "local"))
    alone = aggregate(events, job)
    once = rows_of(alone, job)
    seed = alone.where("__key in ('a', 'c', 'none')").selectExpr(
        "__window", "__key", f"struct({', '.join(kinds)}) as {SEED}"
    )
    seeded = rows_of(aggregate(events.where("__key in ('b', 'c', 'none')"), job, seed), job)
    assert seeded == {key: once[key] for key in ("a", "b", "c", "none")}, "a seed alone, events alone, and both"
    assert once["none"] == dict.fromkeys(kinds)
    assert {one.name: one.present(once["none"]) for one in job.measures} == dict.fromkeys(kinds, 0)
    oracle, sets = duckdb.connect(), ThetaSketches()
    oracle.register("made", pd.DataFrame(made))
    for field in kinds:
        sketches = {key: once[key][field] for key in spans}
        assert all(len(one) <= THETA_BYTES_MAX for one in sketches.values())
        for of, common, without in SET_OPERATIONS:
            parts = [" UNION ".join(f"SELECT {field} FROM made WHERE key = '{key}'" for key in of)]
            parts += [f"INTERSECT SELECT {field} FROM made WHERE key = '{key}'" for key in common]
            parts += [f"EXCEPT SELECT {field} FROM made WHERE key = '{key}'" for key in without]
            query = f"({parts[0]}) {' '.join(parts[1:])}"
            [(true,)] = oracle.sql(f"SELECT count(*) FROM ({query})").fetchall()
            found = sets.combined(*([sketches[key] for key in keys] for keys in (of, common, without)))
            assert found.least <= true <= found.most, (field, of, common, without)
            assert not found.exact or found.number == true, (field, of, common, without)
            assert found.exact == (not set(of + common + without) & set("cd")), (of, common, without)
        merged = merged_row(job.measures, once["a"], once["b"])
        assert {one.name: one.present(merged) for one in job.measures}[field] == 4_000
        mine = update_theta_sketch(12)
        for value in {one[field] for one in made if one["key"] == "a"} - {"", b""}:
            mine.update(value.decode() if field == "blob" else value)
        theirs = sets.combined([sketches["a"]], [], [bytes(mine.compact().serialize())])
        assert (theirs.number, theirs.exact) == (int(field != "big"), True), "the hashes are the library's"
    groups = configuration(job, Settings(), str(tmp_path))[
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"
    ]
    assert int(groups) * 2 * 8 * (2 << THETA_LG_K) < 2**28, "of two tasks a quarter of the default heap"


def _sql(expression: str, name: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(expression).alias(name)


def test_bytes_that_are_no_text_never_reach_a_group(spark: SparkSession, tmp_path: Path) -> None:
    """Avro of strangers, in key, text and tail: accepted where fastavro reads it, and read back as written."""
    kinds = {"label": ["null", "string"], "n": "int"}
    measures = ", ".join(f"{one}: {{measure: {one}, field: label}}" for one in ("first", "last", "min", "max"))
    job = job_of(tmp_path, kinds, measures)
    codec, rng = Codec(job.event_schema), random.Random(3)
    values = [_avro(codec, rng) for _ in range(20_000)]
    told = decode(raw(spark, values), job, known_schemas(job, None), only("t", "local"), explained=True)
    found = {row["offset"]: row for row in told.selectExpr("offset", "event.key", "__reason", "__flaw").collect()}
    wanted = [_read(codec, one) for one in values]
    wrong = [
        (values[at], found[at]) for at, one in enumerate(wanted) if (found[at]["__reason"] is None) != bool(one)
    ]
    assert wrong[:3] == [], len(wrong)
    assert all(found[at]["key"] == one["key"] for at, one in enumerate(wanted) if one)
    reasons = Counter(row["__reason"] for row in found.values())
    assert set(reasons) == {None, UNDECODABLE}
    assert min(reasons.values()) > 2_000
    assert {row["__flaw"]["field"] for row in found.values() if row["__reason"]} == {None, "key", "label"}
    events = usable(raw(spark, values), job, known_schemas(job, None), only("t", "local"))
    assert rows_of(aggregate(events, job), job).keys() == {one["key"] for one in wanted if one}


def _avro(codec: Codec, rng: random.Random) -> bytes:
    """An event whose texts are random bytes now and then, cut short or with bytes behind it now and then."""
    texts = [
        rng.choice([b"k1", b"gr\xc3\xb6", b"111_\xff\xfe", b"\xed\xa0\x80", b"\xc3", rng.randbytes(3)])
        for _ in "ab"
    ]
    marks = ["\1" * len(one) for one in texts]
    made = codec.encode({"key": marks[0], "at": AT, "label": marks[1], "n": rng.randrange(100)})
    head = len(codec.header) + 1
    behind = made[head + len(texts[0]) :]
    made = made[:head] + texts[0] + behind.replace(marks[1].encode(), texts[1], 1)
    dice = rng.random()
    return made[: rng.randrange(10, len(made))] if dice < 0.1 else made + b"\0" * (dice > 0.9)


def _read(codec: Codec, value: bytes) -> dict[str, Any] | None:
    try:
        return codec.decode(value)
    except UsageError:
        return None


@pytest.mark.variations
@pytest.mark.parametrize("precision", [9, 18, 19, 38])
def test_a_decimal_of_more_digits_than_its_type_is_undecodable(
    spark: SparkSession, tmp_path: Path, precision: int
) -> None:
    """Spark takes the last eight bytes of one of up to 18 digits: 2^64 + 5 must not count as 5."""
    job = job_of(tmp_path / "job", {"d": ["null", decimal(precision, 2)]}, "m: {measure: max, field: d}")
    plain = job_of(tmp_path / "plain", {"d": ["null", "bytes"]}, "c: {measure: count}")
    numbers = [5, -(10**precision) + 1, 10**precision, 2**64 + 5, 2**72, 10**38, 2**127, None]
    values = [
        Codec(job.event_schema).header
        + Codec(plain.event_schema).body(
            {"key": "k", "at": AT, "d": None if one is None else one.to_bytes(20, "big", signed=True)}
        )
        for one in numbers
    ]
    told = decode(raw(spark, values), job, known_schemas(job, None), only("t", "local"))
    found = told.orderBy("offset").selectExpr("__reason", "event.d").collect()
    fits = [one is None or abs(one) < 10**precision for one in numbers]
    assert [row["__reason"] is None for row in found] == fits
    assert told.schema["event"].dataType["d"].dataType.simpleString() == f"decimal({precision},2)"
    exact = Context(prec=50)
    mine = [None if one is None else Decimal(one).scaleb(-2, exact) for one in numbers]
    assert [row["d"] for row in found] == [one if ok else None for one, ok in zip(mine, fits, strict=True)]


@pytest.mark.parametrize("field", ["seen", "exact"])
def test_a_time_in_another_unit_is_told_with_it(spark: SparkSession, tmp_path: Path, field: str) -> None:
    """Each of the four units in a field of milli- and of microseconds, as event time; told without Spark, too."""
    source = f"source: {{topic: ranges.events, schema: event.avsc, key: key, event_time: {field}, format: avro}}"
    job = job_of(tmp_path, {"seen": RANGES["seen"][0], "exact": RANGES["exact"][0]}, "c: {measure: count}")
    text = (tmp_path / "job.yaml").read_text(encoding="utf-8").splitlines()
    (tmp_path / "job.yaml").write_text("\n".join([text[0], source, *text[2:]]), encoding="utf-8")
    job = load_job(tmp_path / "job.yaml")
    plain = Codec(schema_of({"seen": "long", "exact": "long"}))
    units = {AT // 1_000: "seconds", AT: "milliseconds", AT * 1_000: "microseconds"}
    own = {"seen": "milliseconds", "exact": "microseconds"}
    if field == "exact":  # more than 64 bits as microseconds: Spark's reader of Avro gives up on the record
        units[AT * 1_000_000] = "nanoseconds"
    right = {"seen": AT, "exact": AT * 1_000}
    values = [
        Codec(job.event_schema).header + plain.body({"key": "k", "at": AT, **right, field: one}) for one in units
    ]
    told = decode(raw(spark, values), job, known_schemas(job, None), only("t", "local"), explained=True)
    found = told.orderBy("offset").selectExpr("__flaw.rule as rule").collect()
    samples = [Sample(0, at, AT, None, one, 0) for at, one in enumerate(values)]
    mine = [one for _, one in judge_records(job, samples, known_schemas(job, None))]
    for row, unit, without in zip(found, units.values(), mine, strict=True):
        if unit == own[field]:
            assert row["rule"] is None
            continue
        assert isinstance(without, Flaw)
        for rule in (row["rule"], without.rule):
            assert rule.endswith(f": {unit} in a field of {own[field]}?"), rule


def test_a_text_that_no_row_has_room_for_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    """One byte beyond what the measure may keep; the longest that it may is counted."""
    measures = "a: {measure: last, field: label}, b: {measure: max, field: label}"
    job = replace(job_of(tmp_path, {"label": "string"}, measures), max_event_bytes=20_000_000)
    most = text_bytes_max(job.measures)
    codec = Codec(job.event_schema)
    values = [codec.encode({"key": "k", "at": AT, "label": "x" * (most + more)}) for more in (1, 0)]
    told = decode(raw(spark, values), job, known_schemas(job, None), only("t", "local"), explained=True)
    found = told.orderBy("offset").selectExpr("__reason", "__flaw.field as field", "__flaw.rule as rule").collect()
    assert [(row["__reason"], row["field"]) for row in found] == [(NO_ROOM, "label"), (None, None)]
    assert f"more than {most} bytes, which is what measure" in found[0]["rule"]


def test_seconds_in_a_field_of_milliseconds_are_found(spark: SparkSession, tmp_path: Path) -> None:
    """By the default of max_behind, with a hint; history of thirteen years is no such thing."""
    job = job_of(tmp_path, {"n": "int"}, "c: {measure: count}")
    codec = Codec(job.event_schema)
    values = [codec.encode({"key": "k", "at": at, "n": 1}) for at in (AT // 1_000, AT, AT - 13 * 365 * 86_400_000)]
    told = decode(raw(spark, values), job, known_schemas(job, None), only("t", "local"), explained=True)
    found = told.orderBy("offset").selectExpr("__reason", "__flaw").collect()
    assert [row["__reason"] for row in found] == [TOO_FAR_BEHIND, None, None]
    assert (found[0]["__flaw"]["field"], found[0]["__flaw"]["rule"]) == (
        "at",
        "1970-01-20 16:13:20 is more than max_behind (1261440000000 ms) before its record's timestamp, "
        f"{AT} ms since 1970: seconds in a field of milliseconds?",
    )
