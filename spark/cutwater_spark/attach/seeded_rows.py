"""The rows of an attached query in a generation that started from a milestone: merged with the seed's.

The query's state begins empty, so its rows are of the events after the milestone. The seed's rows never change,
and each row that the query updates is merged anew with the seed's row. So an epoch that runs again has the
same rows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cutwater.core.job.job import Job
from cutwater.core.job.measures import SEED
from cutwater_spark.query.sql import name

_SAME_ROW = "__seed_key = __key and __seed_window = __window"


class SeededRows:
    """Merges each epoch's rows with those of a seed's folder."""

    def __init__(self, spark: SparkSession, job: Job, folder: str, floor_ms: int) -> None:
        self._job, self._folder, self._floor_ms = job, folder, floor_ms
        seed = spark.read.parquet(folder)
        self._schema = seed.schema
        newest = seed.selectExpr("max(unix_millis(__window.end)) as ms").first()
        self._newest_end_ms = (newest and newest["ms"]) or 0

    def merged(self, rows: DataFrame, epoch: int, closed_ms: int) -> DataFrame:
        """Return the epoch's rows merged; those of the first epoch with every other row of the seed.

        `closed_ms`: windows that end at or below it take no event in this epoch, so no row is of them.
        """
        # The query's own watermark begins at 0: windows that the parent had closed would open again.
        own = rows.where(f"__window.end > timestamp_millis({self._floor_ms}L)")
        if epoch and self._newest_end_ms <= closed_ms:
            return own
        seed = rows.sparkSession.read.schema(self._schema).parquet(self._folder)
        if epoch:
            seed = seed.where(f"__window.end > timestamp_millis({closed_ms}L)")
        seed = seed.selectExpr("__key as __seed_key", "__window as __seed_window", SEED)
        both = own.join(seed, F.expr(_SAME_ROW), "left_outer" if epoch else "full_outer")
        return both.selectExpr(
            "coalesce(__window, __seed_window) as __window",
            "coalesce(__key, __seed_key) as __key",
            *(
                f"{one.over_both} as {name(one.column)}"
                for measure in self._job.measures
                for one in measure.partials
            ),
        )
