"""An archive of the classes that a driver loads: it halves the start of its JVM, about.

`python -m cutwater_spark.tools.classes FILE [JAR...]` writes it by running a small stream as the driver does, with
the connectors' jars on Java's class path; the setting CUTWATER_SPARK_CLASSES names it. It fits one Java, one Spark
version and these jars, which `FILE.jars` lists; others ignore it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.generations.source_topics import only
from cutwater.core.job.job import Job
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.generation import Generation
from cutwater_spark.class_path import jars_file
from cutwater_spark.query.query import aggregate, changelog_rows, decode
from cutwater_spark.session import configuration
from cutwater_spark.warm_up import kafka_rows

EXIT_S = 300
"""The time limit of the stream, and again of the JVM's writing of the archive."""
_SCHEMA = """{"type": "record", "name": "Event", "fields": [
  {"name": "key", "type": "string"},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "value", "type": ["null", "double"], "default": null}
]}"""
_JOB = """
job: classes
source: {topic: classes, schema: event.avsc, key: key, event_time: at, where: value is not null or key > ''}
window: {kind: sliding, size: 1m, slide: 20s}
lateness: 1m
late: {amend_for: 1h}
retention: 1d
shards: 1024
partitions: 2
shuffle_partitions: 1
measures:
  events: {measure: count}
  total: {measure: sum, field: value}
  highest: {measure: max, field: value}
  lowest: {measure: min, field: value}
  mean: {measure: avg, field: value}
  first: {measure: first, field: value}
  last: {measure: last, field: value}
  keys: {measure: distinct, field: key}
"""


def write_archive(archive: Path, jars: Sequence[Path] = ()) -> None:
    """Run a driver's stream for two batches; the JVM writes its classes at exit. Raise UsageError."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    # A cancelled batch's task and RocksDB's maintenance write to the folder until the JVM has ended.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "job.yaml").write_text(_JOB, encoding="utf-8")
        (folder / "event.avsc").write_text(_SCHEMA, encoding="utf-8")
        job, checkpoint = load_job(folder / "job.yaml"), str(folder / "checkpoint")
        session = _session(configuration(job, Settings(data_dir=folder), checkpoint), fresh, jars)
        gateway = session.sparkContext._gateway
        jvm: subprocess.Popen[bytes] = gateway.proc
        _load(gateway.jvm, jars)
        _stream(session, job, checkpoint)
        session.stop()
        gateway.shutdown()
        jvm.communicate(timeout=EXIT_S)  # the JVM exits when its input ends
    if jvm.returncode or not fresh.exists():
        raise UsageError(
            f"Java wrote no archive of classes to {fresh}. Check that Java is 13 or newer and the disk has room"
        )
    jars_file(archive).write_text("\n".join(map(str, jars)), encoding="utf-8")
    fresh.replace(archive)


def _session(conf: dict[str, str], fresh: Path, jars: Sequence[Path]) -> SparkSession:
    # Compiling queries takes more stack while classes are recorded.
    options = f"-XX:ArchiveClassesAtExit={fresh} -Xss8m -Xlog:cds=error -Xlog:cds+dynamic=error"
    conf["spark.driver.extraJavaOptions"] += f" {options}"
    if jars:
        conf["spark.driver.extraClassPath"] = ":".join(map(str, jars))
    builder = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _load(java: Any, jars: Sequence[Path]) -> None:
    """Load the connectors' classes: the stream itself reads and writes no Kafka."""
    loader = java.java.lang.ClassLoader.getSystemClassLoader()
    for jar in jars:
        with zipfile.ZipFile(jar) as packed:
            names = [one.removesuffix(".class").replace("/", ".") for one in packed.namelist()]
        for name in names:
            if "module-info" in name or name.startswith("META-INF") or name.endswith("."):
                continue
            try:
                java.java.lang.Class.forName(name, False, loader)
            except Py4JJavaError:
                continue  # it needs a library that is not there, as a driver does not


def _stream(session: SparkSession, job: Job, checkpoint: str) -> None:
    sources = only(job.topic, "")
    codec = Codec(job.event_schema)
    event = codec.encode({"key": "key", "at": 1_700_000_000_000, "value": 1.0})
    raw = kafka_rows(session.readStream.format("rate").load(), job.topic, event, "value")
    rows = aggregate(decode(raw, job, known_schemas(job, None), sources), job, None, 0, False)
    header = Codec(job.state_schema).header

    def write(frame: DataFrame, epoch: int) -> None:
        records = changelog_rows(frame, job, Writer(Generation(1, "local"), 1, epoch), header)
        records.selectExpr("*", "xxhash64(key, value) as digest").write.format("noop").mode("append").save()

    started = rows.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    query = started.foreachBatch(write).start()
    deadline = time.monotonic() + EXIT_S
    while not query.awaitTermination(1):
        if time.monotonic() > deadline:
            raise UsageError(f"Spark did not run two batches within {EXIT_S} s, so no archive is written")
        if (query.lastProgress or {"batchId": 0})["batchId"] > 1:
            query.stop()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        write_archive(Path(sys.argv[1]).absolute(), [Path(one).absolute() for one in sys.argv[2:]])
    except UsageError as error:
        sys.exit(f"error: {error}")
