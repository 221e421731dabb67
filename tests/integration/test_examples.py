"""The consumers of examples/ run on a real output, and read from it what `committed()` does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest
from benchmarks.harness.java_program import class_path

from cutwater.adapters.avro.codec import schema_folder
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client import CommittedMilestone
from cutwater.core.job.job import Job, Output
from cutwater.core.protocol import topics
from cutwater.local.java import find_java
from support.views.changelogs import HOUR_MS, Sold, Writing, make_job
from support.views.generation_player import Next
from support.views.publishing import publishing, read, wait_published

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/consumers"
PAGE = (ROOT / "docs/CONSUMING.md").read_text(encoding="utf-8")


class Published(NamedTuple):
    """A job's output, and what the client library says of it."""

    cluster: Cluster
    job: Job
    milestones: list[CommittedMilestone]
    folder: Path

    def arguments(self) -> list[str]:
        """Brokers, topic and the two schemas."""
        schema = self.folder / "output.avsc"
        schema.write_text(json.dumps(self.job.output_schema))
        return [
            self.cluster.bootstrap,
            topics.output(self.job.name),
            str(schema),
            str(schema_folder() / "end.avsc"),
        ]


def _publish(cluster: Cluster, folder: Path, format_: str) -> Published:
    """Three milestones, the second empty and the third split into parts."""
    job = replace(make_job(folder)[0], output=Output(format=format_))
    writing = Writing(cluster, job)
    epochs = ([Sold("ä", 1, 5), Sold("b", 1, 7)], [], [Sold(f"shop-{one}", 2, one) for one in range(60)])
    with publishing(cluster, job, folder / "store", part_rows=25):
        for sequence, rows in enumerate(epochs, 1):
            writing.epoch(rows)
            wait_published(cluster, job, sequence)
        found = read(cluster, job, 3)
    writing.close()
    assert [len(one.changes) for one in found] == [2, 0, 60]
    return Published(cluster, job, found, folder)


def _publish_corrections(cluster: Cluster, folder: Path, format_: str) -> Published:
    """Windows are final, then late events amend one, and the next generation takes that and a row back."""
    job = replace(make_job(folder)[0], output=Output("final", format_), amend_for_ms=10 * HOUR_MS)
    writing = Writing(cluster, job)
    with publishing(cluster, job, folder / "store"):
        writing.epoch([Sold("ä", 1, 5), Sold("b", 1, 7)], watermark_ms=2 * HOUR_MS)
        wait_published(cluster, job, 1)
        writing.epoch([Sold("ä", 1, 6), Sold("c", 1, 1)], watermark_ms=2 * HOUR_MS, amended=2)
        wait_published(cluster, job, 2)
        Next(writing, start=1, rewinds=True).promoted([Sold("d", 1, 2)])
        wait_published(cluster, job, 3)
        found = read(cluster, job, 3)
    writing.close()
    kinds = [sorted((one.key, one.kind) for one in each.changes) for each in found]
    assert kinds == [
        [("b", "final"), ("ä", "final")],
        [("c", "correction"), ("ä", "correction")],
        [("c", "tombstone"), ("d", "correction"), ("ä", "correction")],
    ]
    return Published(cluster, job, found, folder)


@pytest.fixture(scope="module")
def avro(broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return _publish(broker.cluster, tmp_path_factory.mktemp("avro"), "avro")


@pytest.fixture(scope="module")
def plain(broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return _publish(broker.cluster, tmp_path_factory.mktemp("json"), "json")


def run(*command: str, timeout_s: float = 120) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pieces(milestone: CommittedMilestone) -> list[tuple[str, int]]:
    return sorted((one.key, int(one.values["pieces"])) for one in milestone.changes)


def test_the_python_consumer_reads_whole_milestones(avro: Published) -> None:
    """Tokens and rows are those of `committed()`; it imports nothing of Cutwater."""
    example = EXAMPLES / "python_consumer.py"
    assert "cutwater" not in example.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in run(sys.executable, str(example), *avro.arguments()).splitlines()]
    assert [one["token"] for one in lines] == [str(one.token) for one in avro.milestones]
    read_ = [sorted((row["key"], int(row["pieces"])) for row in one["rows"]) for one in lines]
    assert read_ == [pieces(one) for one in avro.milestones]


@pytest.mark.slow
def test_the_python_consumer_goes_on_behind_a_sequence(avro: Published) -> None:
    """With the last sequence that was dealt with, the next milestone comes first."""
    output = run(sys.executable, str(EXAMPLES / "python_consumer.py"), *avro.arguments(), "2")
    assert [json.loads(line)["token"] for line in output.splitlines()] == [str(avro.milestones[2].token)]


def run_java(published: Published, kafka_jars: list[Path]) -> list[str]:
    """Run the single source file with kafka-clients and avro; return its lines."""
    # PySpark brings Avro's jar and what it needs.
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("avro-1*.jar"))
    wanted = ("jackson-core", "jackson-databind", "jackson-annotations", "kafka-clients", "lz4", "slf4j-api")
    others = [path for path in kafka_jars if path.name.startswith(wanted)]
    java, source = find_java(), EXAMPLES / "JavaConsumer.java"
    where = ["-cp", class_path(java, source, [*jars, *others]), source.stem]
    command = [str(java), "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", *where]
    return run(*command, *published.arguments()).splitlines()


@pytest.mark.slow
def test_the_java_consumer_reads_whole_milestones(avro: Published, kafka_jars: list[Path]) -> None:
    """It prints the same milestones and rows."""
    tokens, rows = [], []
    for line in run_java(avro, kafka_jars):
        if line.startswith("{"):
            row = json.loads(line)
            rows[-1].append((row["key"], int(row["sales"])))
        else:
            tokens.append(line)
            rows.append([])
    assert tokens == [str(one.token) for one in avro.milestones]
    assert [sorted(one) for one in rows] == [pieces(one) for one in avro.milestones]


@pytest.mark.slow
def test_the_java_consumer_takes_back_what_was_corrected(
    broker: Any, tmp_path: Path, kafka_jars: list[Path]
) -> None:
    """Of each correction and tombstone it has the row before, if it has read one."""
    lines = run_java(_publish_corrections(broker.cluster, tmp_path, "avro"), kafka_jars)
    before = [line.removeprefix("take back ") for line in lines if line.startswith("take back ")]
    rows = [json.loads(one) for one in before if one != "null"]
    assert sorted((row["key"], int(row["sales"])) for row in rows) == [("c", 1), ("ä", 5), ("ä", 6)]
    assert before.count("null") == 2, "c and d are new in a closed window"


@pytest.mark.needs("kcat")
def test_kcat_and_jq_keep_a_table_that_follows_corrections(broker: Any, tmp_path: Path) -> None:
    """Its rows are those of the newest milestone, each with its last kind."""
    if shutil.which("jq") is None:
        pytest.skip("needs jq, which is not here")
    job = _publish_corrections(broker.cluster, tmp_path, "json")
    output = run(str(EXAMPLES / "kcat_table.sh"), job.cluster.bootstrap, topics.output(job.job.name))
    rows = [json.loads(line) for line in output.splitlines()]
    assert sorted((row["key"], row["kind"], row["pieces"]) for row in rows) == [
        ("b", "final", 7),
        ("d", "correction", 2),
        ("ä", "correction", 5),
    ]


@pytest.mark.needs("kcat")
def test_kcat_reads_the_json_output(plain: Published) -> None:
    """Rows have a key, end markers none; by the markers' counts the milestones are whole."""
    output = run(str(EXAMPLES / "kcat.sh"), plain.cluster.bootstrap, topics.output(plain.job.name))
    records = [line.split("\t") for line in output.splitlines()]
    values = [(key, json.loads(value)) for _, _, key, value in records]
    for milestone in plain.milestones:
        sequence = milestone.token.sequence
        rows = [(key, row) for key, row in values if key and row["sequence"] == sequence]
        ends = [end for key, end in values if not key and end["sequence"] == sequence and end["last"]]
        assert sorted((key, row["pieces"]) for key, row in rows) == pieces(milestone)
        assert all(key == row["key"] for key, row in rows)
        assert sum(end["rows"] for end in ends) == len(rows)
        assert len(ends) == plain.job.shards.partitions
    offsets = [int(offset) for partition, offset, _, _ in records if partition == "0"]
    assert offsets != list(range(len(offsets))), "transactions leave gaps: the page says so"


@pytest.mark.parametrize("name", ["python_consumer.py", "JavaConsumer.java", "kcat.sh", "kcat_table.sh"])
def test_the_page_shows_the_examples_as_they_are(name: str) -> None:
    """Each code block of docs/CONSUMING.md that an example is shown in is that file."""
    assert f"\n{(EXAMPLES / name).read_text(encoding='utf-8')}```" in PAGE
