"""What a driver says while it takes over its parent's state: over a real changelog, read by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from cutwater_spark.seed.from_changelog import write_seed
from cutwater_spark.seed.parent import unchanged
from cutwater_spark.seed.prepare import records_below
from cutwater_spark.seed.progress import log_progress, log_rows
from support.views.changelogs import Sold, Writing, make_job, until

pytestmark = pytest.mark.spark
ROWS = 3_000


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, what: str, **about: Any) -> None:
        self.lines.append((what, about))


@pytest.mark.slow
def test_rows_rate_and_what_is_left_are_told_while_spark_reads(
    spark: SparkSession, broker: Any, tmp_path: Path
) -> None:
    """As many as Spark has read so far, up to all that stand below the cut; the tasks of the stage, too."""
    job, _ = make_job(tmp_path)
    writing, log = Writing(broker.cluster, job), Log()
    parent = writing.epoch(Sold(f"shop {number}", 1, 5) for number in range(ROWS))
    total = records_below(broker.cluster, parent)
    assert total == ROWS
    with log_progress(log, "it is read", total, spark, every_s=0.02):
        read = write_seed(spark, broker.cluster, unchanged(job), parent, str(tmp_path / "seed"))
        until(lambda: log.lines and log.lines[-1][1]["rows"] == ROWS, "a line of all rows")
    assert read.records == ROWS
    assert {what for what, _ in log.lines} == {"it is read"}
    lines = [about for _, about in log.lines]
    rows = [one["rows"] for one in lines]
    assert rows == sorted(rows)
    assert all(one["of_at_most"] == ROWS for one in lines)
    first = next(one for one in lines if one["rows"])
    assert first["rows_per_s"] > 0
    assert "seconds_left_at_most" in first
    assert any(one["tasks"] != "0/0" for one in lines), "it was told while stages ran"
    said = len(lines)
    assert len(log.lines) == said, "and no more behind the block"


def test_lines_that_cannot_be_had_do_no_harm() -> None:
    """Spark's other process does not answer: that is said once, and the block goes on."""

    class Away:
        @property
        def _jvm(self) -> Any:
            raise Py4JNetworkError("the answer from the Java side is empty")

    log, away = Log(), Away()
    with log_progress(log, "it is read", None, away, every_s=0.01):  # type: ignore[arg-type]
        until(lambda: log.lines, "a line")
    [(what, about)] = log.lines
    assert what == "the progress is not known"
    assert "empty" in about["reason"]


def test_rows_of_a_snapshot_are_counted_as_they_pass() -> None:
    """A line every few seconds, by the clock, and all rows come through."""
    log, seconds = Log(), iter(range(0, 1_000, 2))
    rows = list(log_rows(range(10_000), log, "it is read", every_s=5.0, clock_s=lambda: float(next(seconds))))
    assert rows == list(range(10_000))
    assert [about for _, about in log.lines] == [
        {"rows": 2_000, "rows_per_s": 333},
        {"rows": 5_000, "rows_per_s": 500},
        {"rows": 8_000, "rows_per_s": 500},
    ]
