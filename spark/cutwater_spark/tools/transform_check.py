"""Check the function of a job file's `source.transform` without events.

`python -m cutwater_spark.tools.transform_check JOB_FILE` calls it with no event and its tables, as the driver does
at its start. Exit 0: a driver can use it. 2: it cannot; the standard error says why.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.job_files.spark_types import event_type
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater_spark.class_path import jars_of
from cutwater_spark.query.computed_columns import with_computed_columns
from cutwater_spark.query.formats import EVENT, REASON
from cutwater_spark.tools.expressions import CLASSES, java_options

MEMORY = "512m"
ANSI = "spark.sql.ansi.enabled"


def check_transform(session: SparkSession, job: Job) -> None:
    """Raise UsageError if the function, its plan, its columns or its tables cannot be used."""
    event = StructType.fromJson(event_type(job.event_schema))
    nothing = StructType([StructField(EVENT, event), StructField(REASON, StringType())])
    with_computed_columns(session.createDataFrame([], nothing), job)


def _session() -> SparkSession:
    return (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", MEMORY)
        .config("spark.driver.extraJavaOptions", " ".join(java_options()))
        .config("spark.driver.extraClassPath", ":".join(jars_of(os.environ.get(CLASSES, ""))))
        .config("spark.sql.session.timeZone", "UTC")
        .config(ANSI, "true")
        .getOrCreate()
    )


def main() -> int:
    try:
        session = _session()
        check_transform(session, load_job(Path(sys.argv[1])))
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
