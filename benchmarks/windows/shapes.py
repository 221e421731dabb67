"""The shapes of B2: each a job with its events, the right answer, and the programs of its peers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import eq
from pathlib import Path

from benchmarks.harness.flink_program import flink
from benchmarks.harness.java_program import JavaProgram
from benchmarks.harness.streams_program import TICKS, streams
from benchmarks.windows import nexmark, oracle, wide, workload
from benchmarks.windows.columns import Backlog
from benchmarks.windows.exactness import TICKS_ROW, Equal, ReadRow, longs
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.job.job import Job

CUTWATER, NOOP, STREAMS = "cutwater", "spark-noop", "kafka-streams"
FLINK, FLINK_SQL = "flink", "flink-sql"
JAVA_PEERS = (STREAMS, FLINK, FLINK_SQL)
"""Contenders that are Java programs: they write `result.json`, and rows in one form to a topic of their own."""
JOBS = Path(__file__).parents[1] / "jobs"
SKETCHES = Path(__file__).parents[1] / "jars" / "sketches.toml"


@dataclass(frozen=True)
class Shape:
    """What is drained, and by whom besides Cutwater and Spark."""

    name: str
    job_file: str
    """In `benchmarks/jobs`, as the events' schema is, which it names."""
    generate: Callable[[int, int], Backlog]
    """The events, by their number and a seed. Shapes of one topic have the same."""
    measures: str
    """The right answer: each of the job's measures in DuckDB's SQL."""
    peers: Mapping[str, JavaProgram]
    read_row: ReadRow = TICKS_ROW
    """A row in the bytes that the Java programs write."""
    equal: Equal = eq
    where: str = "true"
    """Which events count, in DuckDB's SQL."""
    key_text: Callable[[str], str] = str
    """The text of a row's key, by the key of its events' records."""

    @property
    def contenders(self) -> tuple[str, ...]:
        return (CUTWATER, NOOP, *self.peers)

    @property
    def source(self) -> Path:
        return JOBS / self.job_file

    def job(self) -> Job:
        """The job that all contenders do."""
        return load_job(self.source)

    def write_job(self, folder: Path, name: str) -> Path:
        """Write the job file under another name of the job, and its schema beside it."""
        path, text = folder / self.job_file, self.source.read_text(encoding="utf-8")
        path.write_text(re.sub("^job: .*$", f"job: {name}", text, count=1, flags=re.MULTILINE), encoding="utf-8")
        for schema in JOBS.glob("*.avsc"):
            shutil.copy(schema, folder)
        return path


_OF_TICKS = {STREAMS: TICKS, FLINK: flink("B2Flink"), FLINK_SQL: flink("B2FlinkSql", "FlinkSqlBacklog")}
THREE = Shape("three-windows", "b2.yaml", workload.ticks, oracle.TICKS, _OF_TICKS)
SIXTY = Shape("sixty-windows", "b2-sixty.yaml", workload.ticks, oracle.TICKS, _OF_TICKS)
WIDE = Shape(
    "wide",
    "b2-wide.yaml",
    wide.generate,
    wide.MEASURES,
    {STREAMS: streams("B2WideStreams", SKETCHES)},
    wide.read_row,
    wide.equal,
)
SHAPED = Shape(
    "wide-shaped",
    "b2-shaped.yaml",
    wide.generate,
    wide.SHAPED_MEASURES,
    {},
    wide.read_row,
    wide.equal,
    where="distance >= 100 and kind in ('departure', 'arrival')",
    key_text=wide.shaped_key,
)
Q5 = Shape(
    "nexmark-q5",
    "nexmark-q5.yaml",
    nexmark.bids,
    nexmark.COUNT_OF_BIDS,
    {STREAMS: streams("NexmarkQ5Streams"), FLINK_SQL: flink("NexmarkQ5FlinkSql", "FlinkSqlBacklog")},
    longs(1),
)
Q7 = Shape(
    "nexmark-q7",
    "nexmark-q7.yaml",
    nexmark.bids,
    nexmark.HIGHEST_BID,
    {STREAMS: streams("NexmarkQ7Streams"), FLINK_SQL: flink("NexmarkQ7FlinkSql", "FlinkSqlBacklog")},
    longs(1),
)
Q8 = Shape(
    "nexmark-q8",
    "nexmark-q8.yaml",
    nexmark.arrivals,
    nexmark.PERSONS_AND_AUCTIONS,
    {STREAMS: streams("NexmarkQ8Streams"), FLINK_SQL: flink("NexmarkQ8FlinkSql", "FlinkSqlBacklog")},
    longs(2),
)
SHAPES = (THREE, SIXTY, WIDE, SHAPED, Q5, Q7, Q8)
