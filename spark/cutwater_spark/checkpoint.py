"""Spark's checkpoint, read through Hadoop's file system: works on a local folder and on an object store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from cutwater.core.cuts import Cut, TopicPartition
from cutwater.core.errors import ProtocolError


@dataclass(frozen=True)
class Plan:
    """What `offsets/N` says of epoch N."""

    source_cut: Cut
    watermark_ms: int


class Checkpoint:
    """One query's checkpoint location."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self.location = location
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._files = self._path(location).getFileSystem(spark._jsc.hadoopConfiguration())
        self._read = jvm.org.apache.commons.io.IOUtils

    def newest_planned(self) -> int:
        """The newest N with `offsets/N`; -1 without any."""
        return self._newest("offsets")

    def newest_committed(self) -> int:
        """The newest N with `commits/N`; -1 without any."""
        return self._newest("commits")

    def is_committed(self, epoch: int) -> bool:
        return bool(self._files.exists(self._path(f"{self.location}/commits/{epoch}")))

    def plan(self, epoch: int) -> Plan:
        """Raises ProtocolError when the file is not of the one form we know (version v1)."""
        stream = self._files.open(self._path(f"{self.location}/offsets/{epoch}"))
        try:
            text = str(self._read.toString(stream, "UTF-8"))
        finally:
            stream.close()
        return parse_plan(text, f"{self.location}/offsets/{epoch}")

    def _newest(self, folder: str) -> int:
        path = self._path(f"{self.location}/{folder}")
        if not self._files.exists(path):
            return -1
        names = [str(one.getPath().getName()) for one in self._files.listStatus(path)]
        return max((int(name) for name in names if name.isdecimal()), default=-1)


def parse_plan(text: str, where: str) -> Plan:
    """Line 1 `v1`, line 2 JSON with the watermark, then one line of offsets per source, in union order."""
    lines = text.strip().split("\n")
    try:
        if lines[0] != "v1":
            raise ValueError(f"version {lines[0]!r}")
        offsets = json.loads(lines[2])
        cut = Cut.of(
            {
                TopicPartition(topic, int(partition)): int(offset)
                for topic, partitions in offsets.items()
                for partition, offset in partitions.items()
            }
        )
        return Plan(cut, int(json.loads(lines[1])["batchWatermarkMs"]))
    except (ValueError, IndexError, KeyError, AttributeError) as error:
        raise ProtocolError(
            f"{where}: not an offset log of the form v1 ({error!r}); is Spark 4.1 in use?"
        ) from error
