"""The Spark session, with the settings that correctness and speed depend on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import to_avro

from cutwater.adapters.config.settings import Settings
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.measures import THETA
from cutwater.core.job.row_room import ROW_BYTES_MAX
from cutwater_spark.authentication import protection, start_session
from cutwater_spark.class_path import class_path

STATE = "spark.sql.streaming.stateStore.providerClass"
REPEATED_NAMES = "spark.sql.variant.allowDuplicateKeys"
STATE_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OBJECT_GROUPS_MAX = 30_000
"""Spark's default is 128. A full HLL sketch has 4 KB: of two tasks these are a quarter of the default heap."""
THETA_GROUPS_MAX = 2_000
"""A theta sketch that grows has 64 KB: of two tasks these are as much."""
_CONNECTOR = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_COMPILE_LATER = " ".join(
    f"-XX:{what}Threshold={times}"
    for what, times in {
        # Five times Java's: the first compiler takes up code of one plan, of which 200 calls are made at once.
        "Tier3Invocation": 1_000,
        "Tier3MinInvocation": 500,
        "Tier3Compile": 10_000,
        # Ten times Java's.
        "Tier4Invocation": 50_000,
        "Tier4MinInvocation": 6_000,
        "Tier4Compile": 150_000,
        "Tier4BackEdge": 400_000,
    }.items()
)
"""Code that runs per row reaches these thresholds at once; planning, once an epoch, needs no optimisation.

With Java's defaults, its compilers take two fifths of a driver's CPU in the first minute.
"""

_NO_EARLY_COLLECTION = "-XX:MetaspaceSize=256m"
"""Java first collects all garbage for the sake of its classes at so many bytes: 21 MB by default, which costs half
a second in the first two epochs."""


def configuration(job: Job, settings: Settings, checkpoint: str) -> dict[str, str]:
    """Return the Spark settings for a driver's job and environment, by name. Raise UsageError."""
    conf = {
        "spark.app.name": f"cutwater-{job.name}",
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "true" if settings.spark_ui_port else "false",
        "spark.ui.port": str(settings.spark_ui_port or 4040),
        "spark.ui.showConsoleProgress": "false",
        # The UI has no authentication, and a killed stage ends the epoch.
        "spark.ui.killEnabled": "false",
        "spark.sql.session.timeZone": "UTC",
        # What a job file's expressions mean must not depend on the environment of one driver.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "false",
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        "spark.sql.variable.substitute": "false",
        # A second copy of a task would write its rows twice.
        "spark.speculation": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(job.shuffle_partitions),
        # In an object inside an event's field the last of two equal names counts, as in the event itself.
        REPEATED_NAMES: "true",
        # Without Kafka in the list: with its V1 sink an Observation never returns.
        "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
        STATE: STATE_PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": str(settings.state_memory_mb),
        # RocksDB's cache has 64 shards, and the filter of a file has 3 MB: with Spark's defaults (half, a tenth) a
        # shard of 4 MB does not keep it, and each read of a row loads it again.
        "spark.sql.streaming.stateStore.rocksdb.writeBufferCacheRatio": "0.25",
        "spark.sql.streaming.stateStore.rocksdb.highPriorityPoolRatio": "0.5",
        # Counting the rows costs a read of the state for each written row.
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        # A sketch is kept in a map of objects. Above so many groups of a task it is sorted, which takes longer.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(_object_groups(job)),
        "spark.sql.streaming.metricsEnabled": "false",
        # Spark's default too, but Spark looks into the environment for it at each record inside of an event.
        "spark.sql.types.framework.enabled": "false",
    }
    if checkpoint.startswith(("/", "file:")):
        # The default forks a process for each file operation on a local disk.
        conf["spark.sql.streaming.checkpointFileManagerClass"] = _FILE_MANAGER
    limits = avro_limits(job.max_event_bytes)
    conf["spark.driver.extraJavaOptions"] = conf["spark.executor.extraJavaOptions"] = limits
    jars, first = [one for one in settings.spark_jars.split(",") if one], list[str]()
    if settings.spark_master.startswith("local"):
        conf["spark.driver.extraJavaOptions"] += f" -XX:+UseParallelGC {_NO_EARLY_COLLECTION} {_COMPILE_LATER}"
        if settings.spark_classes:
            conf["spark.driver.extraJavaOptions"] += f" -XX:SharedArchiveFile={_archive(settings.spark_classes)}"
            first = class_path(settings.spark_classes, jars)
    else:  # executors on other machines must reach the driver
        del conf["spark.driver.host"], conf["spark.driver.bindAddress"]
        conf |= protection(settings)
    if first:
        conf["spark.driver.extraClassPath"] = ":".join(first)
    if others := [one for one in jars if one not in first]:
        conf["spark.jars"] = ",".join(others)
    return conf


def _object_groups(job: Job) -> int:
    return THETA_GROUPS_MAX if any(one.sketch == THETA for one in job.counted_measures) else OBJECT_GROUPS_MAX


def _archive(path: str) -> str:
    """Return the file of CUTWATER_SPARK_CLASSES. Java ignores a missing file silently and starts slowly."""
    if not Path(path).is_file() or " " in path:
        raise UsageError(
            f"CUTWATER_SPARK_CLASSES: {path} is no file, or has a blank in its name. Create it with "
            "'python -m cutwater_spark.tools.classes FILE', or leave the setting empty"
        )
    return path


def avro_limits(max_event_bytes: int) -> str:
    """Return the JVM options that limit Avro: a damaged event of a few bytes may claim a text of 2 GB.

    Avro would allocate that before reading. The limit also holds for writing, so it is at least that of rows: a
    list holds events that are too large, and a state may hold texts from before `max_event_bytes` was lowered.
    """
    kinds, most = ("string", "bytes", "collectionItems"), max(max_event_bytes, ROW_BYTES_MAX)
    return " ".join(f"-Dorg.apache.avro.limits.{kind}.maxLength={most}" for kind in kinds)


def open_session(job: Job, settings: Settings, checkpoint: str, folder: Path | None = None) -> SparkSession:
    """Open the session. `folder`: that of the JVM's working files; Spark's default if None."""
    session = open_configured(configuration(job, settings, checkpoint), settings, folder)
    reach_checkpoint(session, settings, checkpoint)
    return session


def open_configured(conf: dict[str, str], settings: Settings, folder: Path | None) -> SparkSession:
    """Open a session with these settings. `folder`: as of `open_session`."""
    if settings.spark_master.startswith("local"):
        # Only this sets the UI's address; by default it listens on the network, and it can end queries.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if folder is not None:
        os.environ["SPARK_LOCAL_DIRS"] = str(folder)
        conf["spark.driver.extraJavaOptions"] += f' "-Djava.io.tmpdir={folder}"'
    session = start_session(conf, settings)
    session.sparkContext.setLogLevel("WARN")
    quiet(session, "org.apache.spark.sql.avro.AvroSerializer")  # warns of each nullable column in each task
    quiet(session, "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor")
    return session


def reach_checkpoint(session: SparkSession, settings: Settings, checkpoint: str) -> None:
    """Configure access to an `s3a:` checkpoint. Raise UsageError if the connector is missing.

    Spark's default checkpoint file manager stays: that of spark-hadoop-cloud only logs a failed write.
    """
    if not checkpoint.startswith("s3a:"):
        return
    hadoop = session._jsc.hadoopConfiguration()
    if hadoop.getClassByNameOrNull(_CONNECTOR) is None:
        raise UsageError(
            f"the checkpoint is {checkpoint}, and the Spark session has no S3 connector. Set CUTWATER_CHECKPOINT "
            "to it, and start the session with the jars that CUTWATER_SPARK_JARS then has (docs/CONTAINERS.md)"
        )
    if settings.s3_endpoint:
        hadoop.set("fs.s3a.endpoint", settings.s3_endpoint)
        hadoop.set("fs.s3a.path.style.access", "true")
    if settings.s3_anonymous:
        hadoop.set("fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider")
    # Spark copies the keys from the environment and sends them to executors; each executor reads its own.
    for key in ("access.key", "secret.key", "session.token"):
        for scheme in ("s3", "s3n", "s3a"):
            hadoop.unset(f"fs.{scheme}.{key}")


def adapt(session: SparkSession) -> None:
    """Adjust a user's own session. Raise UsageError naming what it lacks and cannot be changed any more."""
    conf = session.conf
    if session.sparkContext.getConf().get("spark.speculation", "false") == "true":
        raise UsageError("spark.speculation is true: a second copy of a task would write rows twice. Turn it off")
    formats = [one.strip() for one in str(conf.get("spark.sql.sources.useV1SourceList") or "").split(",")]
    # With Kafka's V1 sink an Observation never returns.
    conf.set("spark.sql.sources.useV1SourceList", ",".join(one for one in formats if one.lower() != "kafka"))
    if "HDFSBackedStateStoreProvider" in str(conf.get(STATE)):  # Spark's default, all state in memory
        conf.set(STATE, STATE_PROVIDER)
        conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    try:
        session.range(1).select(to_avro("id"))
    except (PySparkException, TypeError, Py4JError) as error:
        raise UsageError(
            "the Spark session has no spark-avro. Start it with the connectors' jars, as in spark-submit --jars "
            f'"$CUTWATER_SPARK_JARS" ({str(error)[:200]})'
        ) from None
    quiet(session, "org.apache.spark.sql.avro.AvroSerializer")


def quiet(session: SparkSession, logger: str) -> None:
    """Log only the errors of one of Spark's classes."""
    log4j: Any = session._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(logger, log4j.Level.ERROR)
