"""The count of rows of closed windows: right at the boundary, by code that is compiled once."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater_spark.epoch.writer import observe_amended

pytestmark = pytest.mark.spark
ENDS_MS = (10_000, 20_000, 20_000, 30_000)


def compilations(spark: SparkSession) -> int:
    """How often this JVM has compiled generated code."""
    java: Any = spark._jvm
    return int(java.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount())


def test_a_window_counts_that_ends_at_the_watermark_or_below(spark: SparkSession) -> None:
    """The watermark differs in each epoch, the generated code does not."""
    ends = ", ".join(f"({end_ms}L)" for end_ms in ENDS_MS)
    rows = spark.sql(f"select struct(timestamp_millis(ms) as end) as __window from values {ends} as of_ends(ms)")
    rows = rows.repartition(1)  # else the optimizer computes the rows, and no task counts them
    compiled = []
    for watermark_ms in (9_999, 10_000, 19_999, 20_000, 30_001):
        observed, amended = observe_amended(rows, watermark_ms)
        observed.write.format("noop").mode("overwrite").save()
        assert amended.get == {"rows": sum(end_ms <= watermark_ms for end_ms in ENDS_MS)}
        compiled.append(compilations(spark))
    assert len(set(compiled)) == 1
