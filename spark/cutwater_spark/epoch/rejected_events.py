"""Dead letters and late events: events that an epoch could not use, read again and listed before its barrier.

Only if the observation on the input says that there may be some. One action for both lists reads exactly the
epoch's offsets, with the same decoding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.driver.input_stats import InputStats, may_hold_late
from cutwater.core.driver.ports import ListCounts
from cutwater.core.driver.rejected_events import FIELD_HEADER, RULE_HEADER
from cutwater.core.driver.time_jumps import Segment
from cutwater.core.errors import UnavailableError
from cutwater.core.events.formats import WriterSchema
from cutwater.core.events.rejection import NO_VALUE, REASONS
from cutwater.core.generations.source_topics import Sources
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.cuts import Range
from cutwater_spark.query.decoding import USED, decode, record_key
from cutwater_spark.query.query import EARLIEST, window_of
from cutwater_spark.query.rejection_reasons import FLAW
from cutwater_spark.query.sql import kafka_options, single_object_bytes, text

_PLACE = "'topic', topic, 'partition', partition, 'offset', offset"
_EVENT = (
    "'event_key', key, 'event_value', value, 'event_written_ms', unix_millis(timestamp), "
    "'event_headers', coalesce(headers, cast(array() as array<struct<key: string, value: binary>>))"
)


class RejectedEventLists:
    def __init__(
        self,
        spark: SparkSession,
        job: Job,
        cluster: Cluster,
        known: Sequence[WriterSchema],
        sources: Sources,
        count: Callable[[Mapping[str, int]], None] = lambda _reasons: None,
    ) -> None:
        """`count`: takes the rejected events of an epoch by their reason."""
        self._spark = spark
        self._job = job
        self._cluster = cluster
        self._known = known
        self._sources = sources
        self._count = count

    def write(self, me: Writer, range_: Range, seen: InputStats) -> ListCounts:
        """List the epoch's unusable events.

        Raise UnavailableError if the events differ from those that the epoch read: some have been deleted since.
        """
        counted = [Observation("cutwater_dead"), Observation("cutwater_late"), Observation("cutwater_late_read")]
        parts = []
        if seen.rejected:
            parts.append(self._dead(me, range_, counted[0]))
        if may_hold_late(seen, self._job.row_windows, range_.closed_ms):
            parts.append(self._late(me, range_, counted[1], counted[2]))
        if not parts:
            return ListCounts()
        self._save(parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1]))
        late = no_value = 0
        if seen.rejected:
            _require_equal(me, seen, counted[0].get)
            reasons = {one: count for at, one in enumerate(REASONS) if (count := counted[0].get[f"reason_{at}"])}
            self._count(reasons)
            no_value = reasons.get(NO_VALUE, 0)
        if len(parts) == 2 or not seen.rejected:
            _require_equal(me, seen, counted[2].get)
            late = int(counted[1].get["late"])
        return ListCounts(late, no_value)

    def event_times(self, range_: Range, bucket_ms: int) -> list[Segment]:
        """Return first, last and number of the usable events' times in each bucket of `bucket_ms`."""
        at = f"unix_millis(event.`{self._job.time_field}`)"
        rows = (
            self._events(range_)
            .where(USED)
            .selectExpr(f"{at} as moment")
            .groupBy(F.expr(f"floor(moment / {bucket_ms})"))
            .agg(F.expr("min(moment) as oldest"), F.expr("max(moment) as newest"), F.expr("count(1) as events"))
            .collect()
        )
        return [Segment(row["oldest"], row["newest"], row["events"]) for row in rows]

    def _dead(self, me: Writer, range_: Range, counted: Observation) -> DataFrame:
        key = f"named_struct({_list_key(me)})"
        value = f"named_struct({self._writer_fields(me)}, 'reason', __reason, {_EVENT})"
        both = f"{_header(FIELD_HEADER, 'field')}, {_header(RULE_HEADER, 'rule')}"
        flaw = f"filter(array({both}), one -> one.value is not null)"
        return (
            _observe_counts(self._events(range_, explained=True), counted, REASONS)
            .where("__reason is not null")
            .selectExpr(*_entry(topics.dead_letters(self._job.name), "dead_letter", key, value, flaw))
        )

    def _late(self, me: Writer, range_: Range, counted: Observation, read: Observation) -> DataFrame:
        job = self._job
        window = "'key', __key, 'window_start', __window.start, 'window_end', __window.end"
        key = f"named_struct({_list_key(me)}, {window})"
        closed = f"timestamp_millis({range_.closed_ms})"
        facts = f"{self._writer_fields(me)}, 'watermark_ms', {closed}"
        value = f"named_struct({facts}, 'event_time_ms', __event_time, {_EVENT})"
        return (
            _observe_counts(self._events(range_), read)
            .where(USED)
            .selectExpr(
                *("topic", "partition", "offset", "key", "value", "timestamp", "headers"),
                f"{record_key(job)} as __key",
                f"event.`{job.time_field}` as __event_time",
            )
            .selectExpr("*", f"{window_of(job)} as __window")
            .where(f"__window.end <= {closed}")
            .selectExpr(*_entry(topics.late(job.name), "late", key, value))
            .observe(counted, F.expr("count(1) as late"))
        )

    def _events(self, range_: Range, explained: bool = False) -> DataFrame:
        first: dict[str, dict[str, int]] = {}
        end: dict[str, dict[str, int]] = {}
        for place, offset in range_.cut:
            before = range_.before.offset(place, EARLIEST)
            if before != offset:
                first.setdefault(place.topic, {})[str(place.partition)] = before
                end.setdefault(place.topic, {})[str(place.partition)] = offset
        raw = (
            self._spark.read.format("kafka")
            .options(**kafka_options(self._cluster))
            .option("assign", json.dumps({topic: [int(one) for one in parts] for topic, parts in first.items()}))
            .option("startingOffsets", json.dumps(first))
            .option("endingOffsets", json.dumps(end))
            .option("failOnDataLoss", "true")
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", "true")
            .load()
        )
        return decode(raw, self._job, self._known, self._sources, explained)

    def _save(self, records: DataFrame) -> None:
        (
            records.write.format("kafka")
            .mode("append")
            .options(**kafka_options(self._cluster))
            .option("kafka.acks", "all")
            .option("kafka.enable.idempotence", "true")
            .option("kafka.compression.type", "lz4")
            # The limit of a record; the producer's memory must hold one.
            .option("kafka.max.request.size", topics.LISTED_BYTES_MAX)
            .option("kafka.buffer.memory", topics.LISTED_BYTES_MAX)
            .save()
        )

    def _writer_fields(self, me: Writer) -> str:
        named = f"'job', {text(self._job.name)}, 'generation', {text(str(me.generation))}"
        return f"{named}, 'attempt', {me.attempt}, 'epoch', {me.epoch}L"


def _list_key(me: Writer) -> str:
    # With the generation: another one lists the same event too, and neither entry may hide the other.
    return f"'generation', {text(str(me.generation))}, {_PLACE}"


def _header(header: str, part: str) -> str:
    return f"named_struct('key', {text(header)}, 'value', cast({FLAW}.{part} as binary))"


def _entry(topic: str, record: str, key: str, value: str, headers: str = "array()") -> list[str]:
    return [
        f"{text(topic)} as topic",
        f"{single_object_bytes(key, protocol_codec(f'{record}_key'))} as key",
        f"{single_object_bytes(value, protocol_codec(record))} as value",
        f"cast({headers} as array<struct<key: string, value: binary>>) as headers",
    ]


def _observe_counts(events: DataFrame, observation: Observation, reasons: Sequence[str] = ()) -> DataFrame:
    counts = ["count(1) as events", "count_if(__reason is not null) as rejected"]
    # Not in the observation of every epoch on its input: a count is computed for each event.
    counts += [f"count_if(__reason = {text(one)}) as reason_{at}" for at, one in enumerate(reasons)]
    return events.observe(observation, *(F.expr(one) for one in counts))


def _require_equal(me: Writer, seen: InputStats, found: dict[str, int]) -> None:
    if (found["events"], found["rejected"]) != (seen.events, seen.rejected):
        raise UnavailableError(
            f"epoch {me.epoch} read {seen.events} events and rejected {seen.rejected}, but reading them again for "
            f"its lists gave {found['events']} and {found['rejected']}: the source topic has changed meanwhile. "
            "The next attempt runs the epoch again; if this repeats, lengthen the topic's retention."
        )
