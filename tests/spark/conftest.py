"""One Spark session for all tests that ask one themselves; those of whole flows start drivers of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater.adapters.job_files import expressions
from cutwater.adapters.runtime.cache_folder import CACHE_VARIABLE
from cutwater.local.jars import jars
from cutwater.local.spark_runtime import spark_environment
from cutwater_spark.class_path import class_path
from cutwater_spark.session import REPEATED_NAMES, avro_limits
from cutwater_spark.tools.expressions import check_expressions
from support.events import counting
from support.harness import Flow, flow

CLASSES = os.environ.get("CUTWATER_SPARK_CLASSES", "")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """With the connectors' jars, in UTC. Who changes a setting of it takes that back."""
    connectors = [str(one) for one in jars("spark")]
    first = class_path(CLASSES, connectors)
    settings = {
        "spark.jars": ",".join(one for one in connectors if one not in first),
        "spark.driver.extraClassPath": ":".join(first),
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "600m",
        "spark.driver.extraJavaOptions": avro_limits(0) + (f" -XX:SharedArchiveFile={CLASSES}" if CLASSES else ""),
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_environment().items():
            patch.setenv(name, value)
        made = builder.getOrCreate()
    yield made
    made.stop()


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    """The counting job. Modules that need another one have one of this name."""
    with flow(broker.cluster, counting.job_text(unique("count")), tmp_path, counting.SCHEMA) as made:
        yield made


@pytest.fixture
def as_in_a_driver(spark: SparkSession) -> Iterator[None]:
    """The session as a driver has it for JSON: whether a name stands twice is asked in the query."""
    before = spark.conf.get(REPEATED_NAMES)
    spark.conf.set(REPEATED_NAMES, "true")
    yield
    spark.conf.set(REPEATED_NAMES, before or "false")


@pytest.fixture
def asked_here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expressions of job files are checked in this session: a process for each file would take ten seconds."""

    def run(asked: str) -> Any:
        return json.loads(json.dumps(check_expressions(spark._jvm, json.loads(asked))))

    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(expressions, "_run", run)
