"""The archive of classes: made by its command, and taken by the JVM that it is given to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.core.errors import UsageError
from cutwater.local.java import chosen_java
from cutwater.local.spark_runtime import spark_environment
from cutwater_spark.class_path import jars_file, jars_of
from cutwater_spark.session import configuration
from support.views.changelogs import make_job

ARCHIVE = os.environ.get("CUTWATER_SPARK_CLASSES", "")
PROGRAM = """
from pyspark.sql import SparkSession
import sys
options = "-XX:SharedArchiveFile=" + sys.argv[1] + " -Xlog:class+load"
builder = SparkSession.builder.master("local[1]").config("spark.driver.extraJavaOptions", options)
builder = builder.config("spark.driver.extraClassPath", sys.argv[2])
session = builder.getOrCreate()
session.range(1).count()
session.sparkContext._jvm.java.lang.Class.forName("org.apache.kafka.clients.consumer.KafkaConsumer")
"""


@pytest.mark.skipif(not ARCHIVE, reason="made by `make test`, which names it")
@pytest.mark.slow
def test_sparks_classes_come_from_the_archive() -> None:
    """Thousands of Spark's own classes are mapped, not parsed, and those of its connectors."""
    call = [sys.executable, "-c", PROGRAM, ARCHIVE, ":".join(jars_of(ARCHIVE))]
    env = {**os.environ, **spark_environment()}
    done = subprocess.run(call, env=env, capture_output=True, text=True, timeout=120, check=True)
    mapped = re.findall(r"org\.apache\.spark\.\S+ source: shared objects file \(top\)", done.stdout)
    assert len(mapped) > 2_000, f"{ARCHIVE} is not of {chosen_java()}, or of another Spark: delete it"
    assert re.search(r"kafka\.clients\.consumer\.KafkaConsumer source: shared objects file \(top\)", done.stdout)


def test_a_wrong_call_of_the_command_explains_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cutwater_spark.tools.classes"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "CUTWATER_SPARK_CLASSES" in done.stderr


@pytest.mark.parametrize("master", ["local[2]", "spark://elsewhere:7077"])
def test_the_setting_is_for_local_drivers(tmp_path: Path, master: str) -> None:
    """Executors elsewhere have another Java, and perhaps no such file."""
    job, _ = make_job(tmp_path)
    archive = tmp_path / "spark.jsa"
    archive.touch()
    made = configuration(
        job, Settings(spark_classes=str(archive), spark_master=master, spark_authenticate=False), str(tmp_path)
    )
    named = [name for name, value in made.items() if f"-XX:SharedArchiveFile={archive}" in value]
    assert named == (["spark.driver.extraJavaOptions"] if master.startswith("local") else [])


def test_the_jars_of_an_archive_stand_on_the_class_path(tmp_path: Path) -> None:
    """In the archive's order and all of them, or Java takes no class of it; others are Spark's to load."""
    job, _ = make_job(tmp_path)
    archive = tmp_path / "spark.jsa"
    archive.touch()
    jars_file(archive).write_text("/b.jar\n/a.jar\n")

    def paths(jars: str, master: str = "local[2]") -> tuple[str | None, str | None]:
        settings = Settings(
            spark_classes=str(archive), spark_jars=jars, spark_master=master, spark_authenticate=False
        )
        made = configuration(job, settings, str(tmp_path))
        return made.get("spark.driver.extraClassPath"), made.get("spark.jars")

    assert paths("/a.jar,/b.jar,/c.jar") == ("/b.jar:/a.jar", "/c.jar")
    assert paths("/a.jar,/b.jar") == ("/b.jar:/a.jar", None)
    assert paths("/a.jar,/c.jar") == (None, "/a.jar,/c.jar")
    assert paths("/a.jar,/b.jar", "spark://elsewhere:7077") == (None, "/a.jar,/b.jar")
    assert paths("") == (None, None)
    jars_file(archive).unlink()
    assert paths("/a.jar,/b.jar") == (None, "/a.jar,/b.jar")


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Java would go on without it, slowly and silently."""
    job, _ = make_job(tmp_path)
    with pytest.raises(UsageError, match=r"CUTWATER_SPARK_CLASSES: /nowhere/spark\.jsa is no file"):
        configuration(job, Settings(spark_classes="/nowhere/spark.jsa"), str(tmp_path))
