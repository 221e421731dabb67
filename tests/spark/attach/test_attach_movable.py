"""Which attached queries may have `merges`, told from real plans; rows merged with a seed as readers do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UsageError
from cutwater.core.job.measures import SEED, merged_row
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater_spark.attach import Start, attach
from cutwater_spark.attach.movable_plan import require_movable
from cutwater_spark.attach.seeded_rows import SeededRows
from cutwater_spark.attach.start import require_start
from support.protocol_samples import milestone

pytestmark = pytest.mark.spark
EXAMPLE = Path(__file__).parents[3] / "examples" / "attach"
JOB = load_job(EXAMPLE / "sales.yaml")
EVENT = "cast(value as string) as region, timestamp as at, offset as cents, cast(key as string) as event_id"
OFFSETS = {"orders": {"0": 7, "1": 9}}
PARENT = milestone(5, source_cut=Cut.of_topic("orders", [7, 9]))
SECOND = Start(Cluster("127.0.0.1:1"), Generation(2, "local", "0badcafe"), PARENT)


def events(spark: SparkSession, topic: str = "orders", offsets: str = "earliest", **more: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": topic, "startingOffsets": offsets, **more}
    read = spark.readStream.format("kafka").options(**options).load().selectExpr(*EVENT.split(", "))
    return read.withWatermark("at", "1 hour")


def grouped(frame: DataFrame, **columns: Any) -> DataFrame:
    cents = F.col("cents")
    made = {
        "orders": F.count("*"),
        "cents": F.sum(cents),
        "smallest": F.min(cents),
        "largest": F.max(cents),
        "latest": F.max("event_id"),
    }
    by = frame.groupBy(F.window("at", "10 minutes"), "region")
    return by.agg(*(one.alias(name) for name, one in {**made, **columns}.items()))


def test_a_stateless_query_may_move(spark: SparkSession) -> None:
    """Filters, columns, static joins, unions, arrays, and columns renamed above the aggregation."""
    static = spark.createDataFrame([("a", 1)], "region string, rate int")
    made = events(spark)
    for frame in (
        made.join(static, "region"),
        static.join(F.broadcast(made), "region"),
        made.where("cents > 3").withColumn("each", F.explode(F.array("cents"))).repartition(2),
        made.union(events(spark, "returns")),
        made.mapInPandas(lambda them: them, made.schema),
    ):
        require_movable(grouped(frame), JOB)
    few = F.expr("max(cents) filter (where cents > 3)")
    for odd in (
        {"orders": F.count_if(F.col("cents") > 3)},
        {"smallest": F.expr("every(cents > 3)")},
        {"largest": few},
    ):
        require_movable(grouped(made, **odd), JOB)
    renamed = grouped(made).withColumnRenamed("cents", "total").select("*", F.col("total").alias("cents"))
    require_movable(renamed.drop("total"), JOB)


def test_what_a_milestone_does_not_hold_is_named(spark: SparkSession) -> None:
    """The operator, or the column, and what to do."""
    made, other = events(spark), events(spark, "returns").select("event_id", F.col("at").alias("then"))
    cents = F.col("cents")
    per_day = made.groupBy(F.window("at", "1 day"), "region", "event_id").agg(F.sum("cents").alias("cents"))
    refused: dict[str, DataFrame] = {
        "operator Deduplicate, .*the events that were seen.* in another query": grouped(
            made.dropDuplicates(["event_id", "at"])
        ),
        "operator DeduplicateWithinWatermark": grouped(made.dropDuplicatesWithinWatermark(["event_id"])),
        "operator Join, .* wait for each other": grouped(made.join(other, "event_id")),
        "operator Aggregate": grouped(per_day.withColumn("at", F.window_time("window")).drop("window")),
        "operator (Global)?Limit": grouped(made.limit(5)),
        "a filter above the aggregation": grouped(made).where("orders > 3"),
        "'cents' is computed from the aggregation's": grouped(made).withColumn("cents", F.col("cents") + 1),
        "'cents' is avg.*leave the column out": grouped(made, cents=F.avg("cents")),
        "'cents' is max.*say cents: max": grouped(made, cents=F.max("cents")),
        "'largest' is sum.*say largest: sum": grouped(made, largest=F.sum("cents")),
        "'orders' is count\\(DISTINCT .*without DISTINCT": grouped(made, orders=F.count_distinct(cents)),
        "'largest' is .*one aggregate function": grouped(made, largest=F.max("cents") - F.min("cents")),
    }
    for said, frame in refused.items():
        with pytest.raises(UsageError, match=said):
            require_movable(frame, JOB)
    with pytest.raises(UsageError, match="operator Deduplicate"):
        attach(grouped(made.dropDuplicates(["event_id", "at"])), EXAMPLE / "sales.yaml")


def test_a_query_must_read_from_its_generations_start(spark: SparkSession) -> None:
    """Each topic once, by name, from the parent's cut; new partitions and topics from their first event."""
    first = Start(SECOND.cluster, Generation(1, "local"))
    for start, offsets in (
        (first, "earliest"),
        (SECOND, json.dumps(OFFSETS)),
        (SECOND, json.dumps({"orders": {**OFFSETS["orders"], "2": -2}})),
    ):
        require_start(events(spark, offsets=offsets), start)
    known = events(spark, offsets=json.dumps(OFFSETS))
    require_start(known.union(events(spark, "returns")), SECOND)
    later = partial(events, spark, offsets=json.dumps(OFFSETS))
    require_start(events(spark, startingTimestamp="1"), first)
    rated = ("'a' as region", "timestamp as at", "value as cents", "'' as event_id")
    rate = spark.readStream.format("rate").load().selectExpr(*rated)
    for said, frame, start in (
        ("from startingOffsets 'earliest'", events(spark), SECOND),
        ("from startingOffsets", events(spark, offsets='{"orders": {"0": 7, "1": 8}}'), SECOND),
        ("from startingOffsets", events(spark, offsets='{"orders": {"0": 7}}'), SECOND),
        ("from startingOffsets", events(spark, offsets='{"orders": {"0": 7, "1": 9, "2": 1}}'), SECOND),
        ("from startingOffsets", known.union(events(spark, "returns", "latest")), SECOND),
        ("reads orders by startingTimestamp", later(startingTimestamp="1"), SECOND),
        ("by startingOffsetsByTimestamp", later(startingOffsetsByTimestamp='{"orders": {"0": 1}}'), SECOND),
        ("has read orders, but the query does not", events(spark, "returns"), SECOND),
        ("reads topic orders 2 times", known.union(known), first),
        ("from rate.* is no Kafka source", known.union(rate), first),
    ):
        with pytest.raises(UsageError, match=said):
            require_start(frame, start)


def test_a_query_that_can_fail_over_reads_one_topic_and_its_copies(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program names the topic; the copies in the generation's cut come by themselves, with their offsets."""
    cut = Cut.of_topic("orders", [7, 9]).and_(Cut.of_topic("orders.from-us", [40]))
    third = Start(SECOND.cluster, Generation(3, "eu", "0badcafe"), milestone(5, source_cut=cut))
    counts = {"orders": [1, 2, 3], "orders.from-us": [1]}

    def found(_: Cluster, names: Iterable[str]) -> dict[str, Any]:
        return {name: SimpleNamespace(partitions=counts[name]) for name in names}

    monkeypatch.setattr("cutwater_spark.attach.start.descriptions", found)
    options = third.kafka("orders")
    assert options["subscribe"] == "orders,orders.from-us"
    offsets = {"orders": {"0": 7, "1": 9, "2": -2}, "orders.from-us": {"0": 40}}
    assert json.loads(options["startingOffsets"]) == offsets
    about = {"kafka.isolation.level": "read_committed"}
    assert options["kafka.isolation.level"] == "read_committed"
    require_start(events(spark, options["subscribe"], options["startingOffsets"], **about), third, "orders")
    with pytest.raises(UsageError, match=r"reads orders\.from-us without kafka\.isolation\.level read_committed"):
        require_start(events(spark, options["subscribe"], options["startingOffsets"]), third, "orders")
    with pytest.raises(UsageError, match=r"has read orders\.from-us, but the query does not"):
        require_start(events(spark, offsets=json.dumps({"orders": offsets["orders"]})), third, "orders")
    first = Start(SECOND.cluster, Generation(1, "local"))
    require_start(events(spark), first, "orders")
    for frame in (events(spark, "returns"), events(spark).union(events(spark, "returns"))):
        with pytest.raises(UsageError, match=r"attached\.source is orders, but the query reads returns"):
            require_start(frame, first, "orders")


@pytest.mark.slow
def test_rows_merge_in_sql_as_readers_merge_them(spark: SparkSession, tmp_path: Path) -> None:
    """Every pair of values, with NULL; the first epoch has the seed's other rows, later ones have not."""
    values = [(None,) * 5, (0, 0, None, -3, ""), (7, -(2**62), 5, 5, "größe"), (1, 2**62 - 1, -9, None, "z")]
    names = [one.name for one in JOB.measures]
    window = "named_struct('start', timestamp_millis({0}L), 'end', timestamp_millis({0}L + 600000L)) as __window"
    kinds = "orders long, cents long, smallest long, largest long, latest string"
    at, folder = 1_700_000_400_000, str(tmp_path / "seed")
    numbered = list(enumerate(values))
    pairs = {f"k{one}{two}": (mine, theirs) for one, mine in numbered for two, theirs in numbered}
    seeds = spark.createDataFrame([(key, *theirs) for key, (_, theirs) in pairs.items()], f"key string, {kinds}")
    seeds = seeds.union(spark.createDataFrame([("seed-only", 1, 2, 3, 4, "x")], seeds.schema))
    packed = ", ".join(names)
    seeds.selectExpr("key as __key", window.format(at), f"struct({packed}) as `{SEED}`").write.parquet(folder)
    own = spark.createDataFrame([(key, *mine) for key, (mine, _) in pairs.items()], f"__key string, {kinds}")
    own = own.union(spark.createDataFrame([("own-only", 5, 6, 7, 8, "y")], own.schema))
    rows = own.selectExpr(window.format(at), "*")
    closed = rows.selectExpr(window.format(at - 600_000), "__key", *names)

    seeded = SeededRows(spark, JOB, folder, at)
    first = seeded.merged(rows.union(closed), 0, at).collect()
    assert len(first) == len(pairs) + 2, "a row of a window that the parent had closed is left out"
    read = {row["__key"]: row.asDict() for row in first}
    for key, (mine, theirs) in pairs.items():
        one, other = (dict(zip(names, each, strict=True)) for each in (mine, theirs))
        merged = merged_row(JOB.measures, one, other)
        assert {name: read[key][name] for name in names} == merged, key
        assert read[key]["__window"] == read["own-only"]["__window"]
    assert [read["seed-only"][name] for name in names] == [1, 2, 3, 4, "x"]
    again = {row["__key"]: row.asDict() for row in seeded.merged(rows, 4, at).collect()}
    assert again == {key: row for key, row in read.items() if key != "seed-only"}
    after = {row["__key"]: row["orders"] for row in seeded.merged(rows, 5, at + 600_000).collect()}
    assert after["k22"] == 7, "no row of a seed is looked for once its windows are closed"


def test_a_sum_without_room_ends_the_query(spark: SparkSession, tmp_path: Path) -> None:
    """In a session without ANSI mode, too, where Spark would go on with a wrong number."""
    window = "named_struct('start', timestamp_millis(0L), 'end', timestamp_millis(600000L)) as __window"
    full = f"struct(1L as orders, {2**63 - 1}L as cents, 1L as smallest, 1L as largest, '' as latest) as `{SEED}`"
    spark.sql(f"select 'a' as __key, {window}, {full}").write.parquet(str(tmp_path / "seed"))
    rows = spark.sql(
        f"select {window}, 'a' as __key, 1L as orders, 1L as cents, 1L as smallest, 1L as largest, '' as latest"
    )
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    try:
        for mode in ("true", "false"):
            spark.conf.set("spark.sql.ansi.enabled", mode)
            with pytest.raises(Exception, match="column cents: the sum with the value of the parent milestone"):
                SeededRows(spark, JOB, str(tmp_path / "seed"), 0).merged(rows, 0, 0).collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(ansi))
