"""Measures of `kept: state` in a seed: counted once more, from events below the milestone that the source holds.

A seed's rows have the parent's columns. For such measures each gets the partials of its events, and whether they
are all of them (`WHOLE`). `cutwater.core.generations.recount` has the rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.kafka.client import first_since, make_consumer, partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.core.events.formats import WriterSchema
from cutwater.core.generations.recount import event_count, events_since_ms
from cutwater.core.generations.source_topics import Sources
from cutwater.core.job.event_decoding import Decoding
from cutwater.core.job.job import Job
from cutwater.core.job.kinds.stored_values import WHOLE
from cutwater.core.job.measures import SEED
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.records import Milestone
from cutwater.operations.generations.start_check import partitions_of
from cutwater_spark.query.query import decode, window_of
from cutwater_spark.query.sql import kafka_options, name, text

_RECORDS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
_PLACE = ["topic", "partition", "offset"]
Ranges = Mapping[TopicPartition, tuple[int, int]]
"""First offset and end of each partition that has events to read."""


class Recounted(NamedTuple):
    open_rows: int
    """Rows of windows that take events."""
    whole: int
    """Of these, the rows whose measures of `kept: state` are complete."""


class Recount:
    def __init__(self, spark: SparkSession, cluster: Cluster, job: Job, decoding: Decoding, region: str) -> None:
        """`region`: where the generation runs, and its parent did."""
        self._spark, self._cluster, self._region = spark, cluster, region
        self._job, self._known = decoding.applied(job), decoding.known
        self._lists = {topics.late(job.name): "late_key", topics.dead_letters(job.name): "dead_letter_key"}
        self._offsets = Offsets(cluster)

    def ranges(self, parent: Milestone, floor_ms: int) -> dict[TopicPartition, tuple[int, int]]:
        """Return where the events of rows above the floor are, by the records' times."""
        since_ms, found = events_since_ms(self._job, floor_ms), {}
        with closing(make_consumer(self._cluster)) as consumer:
            for place, cut in parent.source_cut:
                first = first_since(consumer, place.topic, place.partition, since_ms)
                if first < cut:
                    found[place] = first, cut
        return found

    def listed(self) -> int:
        """Return how many entries the lists of late and rejected events have: all of them are read, too."""
        return sum(
            high - low
            for topic in self._lists
            for low, high in self._offsets.topic_bounds(
                topic, range(partition_count(self._cluster, topic))
            ).values()
        )

    def write(self, rows: str, folder: str, parent: Milestone, floor_ms: int, ranges: Ranges) -> Recounted:
        """Write the seed's `rows` with the state's columns to `folder`; without ranges all are incomplete."""
        counts = partitions_of(self._cluster, self._job, parent.source_cut)
        sources = Sources(self._job.topic, self._region, counts)
        counted = counted_rows(self._records(ranges), self._job, self._known, sources, floor_ms)
        made = with_state(self._spark.read.parquet(rows), counted, self._job)
        seen = Observation("cutwater_recounted")
        told = {
            "open_rows": f"count_if(__window.end > timestamp_millis({floor_ms}L))",
            "whole": f"count_if({SEED}.{WHOLE})",
        }
        made = made.observe(seen, *(F.expr(f"{sql} as {to}") for to, sql in told.items()))
        made.write.mode("overwrite").parquet(folder)
        return Recounted(**seen.get)

    def _records(self, ranges: Ranges) -> DataFrame:
        if not ranges:
            return self._spark.createDataFrame([], _RECORDS)
        first: dict[str, dict[str, int]] = {}
        end: dict[str, dict[str, int]] = {}
        for place, (low, high) in ranges.items():
            first.setdefault(place.topic, {})[str(place.partition)] = low
            end.setdefault(place.topic, {})[str(place.partition)] = high
        raw = self._read(
            assign=json.dumps({topic: [int(one) for one in parts] for topic, parts in first.items()}),
            startingOffsets=json.dumps(first),
            endingOffsets=json.dumps(end),
            # What is gone meanwhile is missed by the number of events.
            failOnDataLoss="false",
        )
        return raw.join(self._listed(), _PLACE, "left_anti")

    def _listed(self) -> DataFrame:
        """Return the places of all events that were listed as late or rejected, by whatever generation."""
        late, dead = (self._places(topic, record) for topic, record in self._lists.items())
        return late.union(dead).distinct()

    def _places(self, topic: str, record: str) -> DataFrame:
        codec = protocol_codec(record)
        entry = f"from_avro(substring(key, {len(codec.header) + 1}), {text(json.dumps(codec.schema))})"
        entries = self._read(subscribe=topic, startingOffsets="earliest", endingOffsets="latest")
        return entries.selectExpr(f"{entry} as at").selectExpr(*(f"at.{one}" for one in _PLACE))

    def _read(self, **options: Any) -> DataFrame:
        return (
            self._spark.read.format("kafka")
            .options(**kafka_options(self._cluster))
            .options(**options)
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", "true")
            .load()
        )


def counted_rows(
    records: DataFrame, job: Job, known: Sequence[WriterSchema], sources: Sources, floor_ms: int
) -> DataFrame:
    """Return the state's partials of the records' rows above a floor, with the number of events in `__events`."""
    windowed = decode(records, job, known, sources).selectExpr(f"{window_of(job)} as __window", "*")
    partials = [part for one in job.state_measures for part in one.partials]
    made = [F.expr(one.over_events).alias(one.column) for one in partials]
    above = windowed.where(f"__window.end > timestamp_millis({floor_ms}L)")
    return above.groupBy("__window", "__key").agg(*made, F.expr("count(1) as __events"))


def with_state(seeds: DataFrame, counted: DataFrame, job: Job) -> DataFrame:
    """Return the seeds with the state's partials, and with `WHOLE`: whether they are of all events of the row."""
    count = event_count(job)
    same = f"c.__events is not null and c.__events = s.{SEED}.{name(count)}" if count else "false"
    [partials] = [field.dataType for field in seeds.schema if field.name == SEED]
    columns = {one: f"s.{SEED}.{name(one)}" for one in partials.names}
    columns |= {part.column: f"c.{name(part.column)}" for one in job.state_measures for part in one.partials}
    columns[WHOLE] = same
    struct = ", ".join(f"{text(column)}, {sql}" for column, sql in columns.items())
    on = F.expr("s.__key = c.__key and s.__window.end = c.__window.end")
    joined = seeds.alias("s").join(counted.alias("c"), on, "left")
    return joined.selectExpr("s.__key", "s.__window", f"named_struct({struct}) as {SEED}")
