"""The driver's writer of the changelog: an epoch's rows, in one Spark action."""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.driver.row_proof import Written
from cutwater.core.job.row_room import ROW_BYTES_MAX
from cutwater_spark.epoch.row_proof import ProvedRows
from cutwater_spark.query.sql import kafka_options

_DIGEST = "coalesce(bit_xor(if(partition = {number}, xxhash64(key, value), 0L)), 0L) as d{number}"


class Changelog(ProvedRows):
    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        super().__init__(cluster, topic, partitions)
        self._cluster = cluster

    def write(self, rows: DataFrame, amended: Observation | None = None) -> Written:
        """Write and count the rows in one action; a second would repeat the aggregation and its state updates.

        `amended`: an observation below the rows that counts those of closed windows.
        """
        observation = Observation("cutwater_rows")
        numbers = range(self.partitions)
        # As text: each Column function takes several calls to the JVM, in every epoch.
        counts = [F.expr(f"count_if(partition = {number}) as p{number}") for number in numbers]
        digests = [F.expr(_DIGEST.format(number=number)) for number in numbers]
        (
            rows.observe(observation, *counts, *digests)
            .write.format("kafka")
            .mode("append")
            .options(**sink_options(self._cluster, self.topic))
            .save()
        )
        seen = observation.get
        return Written(
            {number: seen[f"p{number}"] for number in numbers},
            {number: seen[f"d{number}"] for number in numbers},
            int(amended.get["rows"]) if amended else 0,
        )


def sink_options(cluster: Cluster, topic: str) -> dict[str, str]:
    return kafka_options(cluster) | {
        "topic": topic,
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.compression.type": "lz4",
        "kafka.linger.ms": "5",
        "kafka.batch.size": "262144",
        "kafka.max.request.size": str(ROW_BYTES_MAX),
    }
