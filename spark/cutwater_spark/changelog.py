"""The changelog as the driver sees it: write an epoch's rows, then prove what stands there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Message
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.ends import Ends
from cutwater.adapters.kafka import headers_of, make_consumer, read_range
from cutwater.core import topics
from cutwater.core.cuts import Cut
from cutwater.core.errors import DivergenceError, UsageError
from cutwater.core.generations import Generation
from cutwater.core.proof import ChangelogRow, Writer, describe, foreign_rows, strays, suspects
from cutwater_spark.query import kafka_options


@dataclass(frozen=True)
class Written:
    """What one epoch's action wrote, as the executors counted it."""

    rows: dict[int, int]
    """Rows by partition."""
    digest: int
    """Signed 64-bit XOR of xxhash64(key, value)."""


class Changelog:
    """One generation's changelog topic."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self._cluster = cluster
        self._consumer = make_consumer(cluster, **{"isolation.level": "read_uncommitted"})
        self._ends = Ends(cluster)

    def write(self, rows: DataFrame) -> Written:
        """Write the rows in exactly one action, counting on the way.

        A second action would execute the aggregation, and its state updates, again.
        """
        observation = Observation("cutwater_rows")
        # As text: each Column function would be several calls to the JVM, in every epoch.
        counts = [F.expr(f"count_if(partition = {number}) as p{number}") for number in range(self.partitions)]
        digest = F.expr("coalesce(bit_xor(xxhash64(key, value)), 0L) as digest")
        (
            rows.observe(observation, *counts, digest)
            .write.format("kafka")
            .mode("append")
            .options(**sink_options(self._cluster, self.topic))
            .save()
        )
        seen = observation.get
        return Written({number: seen[f"p{number}"] for number in range(self.partitions)}, seen["digest"])

    def ends(self) -> dict[int, int]:
        """The next offset of each partition."""
        return self._ends.of(self.topic, self.partitions)

    def prove(self, baseline: Cut, me: Writer, written: Written) -> Cut:
        """The cut after this epoch, once it is sure that nothing but this epoch's rows was added.

        Raises DivergenceError naming the foreign records: the generation has ended.
        """
        ends = self.ends()
        for suspect in suspects(self._by_partition(baseline), ends, written.rows):
            records = list(self._range(suspect.partition, suspect.first, suspect.end))
            self._refuse(foreign_rows(records, me, suspect.rows), f"at the barrier of epoch {me.epoch}")
        return Cut.of_topic(self.topic, (ends[number] for number in range(self.partitions)))

    def check_start(self, baseline: Cut, generation: Generation, next_epoch: int, attempt: int) -> None:
        """Raise DivergenceError when records above the newest barrier are not of the epoch about to run."""
        for suspect in suspects(self._by_partition(baseline), self.ends(), {}):
            records = self._range(suspect.partition, suspect.first, suspect.end)
            self._refuse(strays(records, generation, next_epoch, attempt), "at the start")

    def check_idle(self, cut: Cut) -> None:
        """Raise DivergenceError when anything was added since the newest barrier."""
        for suspect in suspects(self._by_partition(cut), self.ends(), {}):
            self._refuse(list(self._range(suspect.partition, suspect.first, suspect.end)), "at a heartbeat")

    def _by_partition(self, cut: Cut) -> dict[int, int]:
        return {place.partition: offset for place, offset in cut}

    def _range(self, partition: int, first: int, end: int) -> Iterator[ChangelogRow]:
        for message in read_range(self._consumer, self.topic, partition, first, end):
            yield ChangelogRow(partition, message.offset(), message.key(), message.value(), _writer(message))

    def _refuse(self, foreign: list[ChangelogRow], when: str) -> None:
        if foreign:
            raise DivergenceError(
                f"{when}, {self.topic} holds {len(foreign)} record(s) that this driver did not write: "
                f"{describe(foreign, self.topic)}. Another driver or a zombie executor writes to this generation. "
                "Stop it, and start a new generation from the last milestone; nothing foreign has been shown."
            )


def sink_options(cluster: Cluster, topic: str) -> dict[str, str]:
    """Options of Spark's Kafka sink for rows of a changelog."""
    return kafka_options(cluster) | {
        "topic": topic,
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.compression.type": "lz4",
        "kafka.linger.ms": "5",
        "kafka.batch.size": "262144",
        "kafka.max.request.size": str(topics.ROW_BYTES_MAX),
    }


def _writer(message: Message) -> Writer | None:
    headers = headers_of(message)
    try:
        generation = Generation.parse(headers["generation"].decode())
        return Writer(generation, int(headers["attempt"]), int(headers["epoch"]))
    except (KeyError, ValueError, AttributeError, TypeError, UsageError):
        return None
