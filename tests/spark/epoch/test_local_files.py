"""Local files of the JVM: their permissions are set without a process for each (`tools/local_files.py`)."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater_spark.tools.local_files import CLASS, set_permissions_in_jvm

pytestmark = pytest.mark.spark


@pytest.fixture
def restored(spark: SparkSession) -> Iterator[Any]:
    """Hadoop's local file system, whose inner one is that of before after the test."""
    java: Any = spark._jvm
    files = java.org.apache.hadoop.fs.FileSystem.getLocal(spark._jsc.hadoopConfiguration())
    before = files.getRawFileSystem()
    yield files
    field = java.java.lang.Class.forName("org.apache.hadoop.fs.FilterFileSystem").getDeclaredField("fs")
    field.setAccessible(True)
    field.set(files, before)


def page_faults_of_ended_children(spark: SparkSession) -> int:
    """It grows by each process that the JVM has started and that has ended."""
    gateway: Any = spark.sparkContext._gateway
    fields = Path(f"/proc/{gateway.proc.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return int(fields[8])


def write(spark: SparkSession, folder: Path, name: str) -> Path:
    """Write a file as Spark writes its offset log."""
    java: Any = spark._jvm
    place = java.org.apache.hadoop.fs.Path(str(folder))
    checkpointing = java.org.apache.spark.sql.execution.streaming.checkpointing
    log = checkpointing.FileSystemBasedCheckpointFileManager(place, spark._jsc.hadoopConfiguration())
    stream = log.createAtomic(java.org.apache.hadoop.fs.Path(place, name), False)
    stream.write(bytearray(b"v1"))
    stream.close()
    return folder / name


def test_a_checkpoint_file_takes_no_process(spark: SparkSession, restored: Any, tmp_path: Path) -> None:
    """It took two: for the file and for its checksum. Contents, checksum and permissions are the same."""
    before = page_faults_of_ended_children(spark)
    plain = write(spark, tmp_path, "1")
    begun = page_faults_of_ended_children(spark)
    assert begun > before

    set_permissions_in_jvm(spark)
    assert restored.getRawFileSystem().getClass().getName() == CLASS
    own = write(spark, tmp_path, "2")
    assert page_faults_of_ended_children(spark) == begun
    assert own.read_bytes() == plain.read_bytes() == b"v1"
    for one, other in ((plain, own), (tmp_path / ".1.crc", tmp_path / ".2.crc")):
        assert one.read_bytes() == other.read_bytes()
        assert stat.S_IMODE(one.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_permissions_are_those_that_are_asked_for(spark: SparkSession, restored: Any, tmp_path: Path) -> None:
    """Also one with a bit that only `chmod` sets."""
    set_permissions_in_jvm(spark)
    java: Any = spark._jvm
    path = java.org.apache.hadoop.fs.Path(str(tmp_path))
    for bits in (0o700, 0o751, 0o1777):
        restored.setPermission(path, java.org.apache.hadoop.fs.permission.FsPermission(f"{bits:o}"))
        assert stat.S_IMODE(tmp_path.stat().st_mode) == bits
