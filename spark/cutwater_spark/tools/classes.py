"""An archive of the classes that Spark loads: it halves the start of a driver's JVM, about.

`python -m cutwater_spark.tools.classes FILE` writes it by running a small stream like the driver's; the setting
CUTWATER_SPARK_CLASSES names it. It fits one Java and one Spark version; others ignore it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import window

from cutwater.core.errors import UsageError
from cutwater_spark.session import STATE, STATE_PROVIDER

EXIT_S = 300
"""The time limit of the stream, and again of the JVM's writing of the archive."""


def write_archive(archive: Path) -> None:
    """Run a windowed stream on RocksDB for two batches; the JVM writes its classes at exit. Raise UsageError."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    # Compiling queries takes more stack while classes are recorded.
    options = f"-XX:ArchiveClassesAtExit={fresh} -Xss8m -Xlog:cds=error -Xlog:cds+dynamic=error"
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.extraJavaOptions", options)
        .config(STATE, STATE_PROVIDER)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    gateway = session.sparkContext._gateway
    jvm: subprocess.Popen[bytes] = gateway.proc
    # A cancelled batch's task and RocksDB's maintenance write to the folder until the JVM has ended.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        _stream(session, folder)
        session.stop()
        gateway.shutdown()
        jvm.communicate(timeout=EXIT_S)  # the JVM exits when its input ends
    if jvm.returncode or not fresh.exists():
        raise UsageError(
            f"Java wrote no archive of classes to {fresh}. Check that Java is 13 or newer and the disk has room"
        )
    fresh.replace(archive)


def _stream(session: SparkSession, folder: str) -> None:
    counted = (
        session.readStream.format("rate")
        .load()
        .withWatermark("timestamp", "1 minute")
        .groupBy("value", window("timestamp", "1 hour"))
        .count()
    )
    started = counted.writeStream.outputMode("update").option("checkpointLocation", folder)
    query = started.foreachBatch(lambda frame, _number: frame.collect()).start()
    deadline = time.monotonic() + EXIT_S
    while not query.awaitTermination(1):
        if time.monotonic() > deadline:
            raise UsageError(f"Spark did not run two batches within {EXIT_S} s, so no archive is written")
        if (query.lastProgress or {"batchId": 0})["batchId"] > 1:
            query.stop()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        write_archive(Path(sys.argv[1]).absolute())
    except UsageError as error:
        sys.exit(f"error: {error}")
