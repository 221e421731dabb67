"""Spark's checkpoint, read through Hadoop's file system: works on a local folder and on an object store."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from cutwater.core.driver.ports import Plan
from cutwater.core.errors import ProtocolError, UsageError
from cutwater.core.job.job import differences
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.operations.generations.start_check import DEFINITION

_DECODINGS = "cutwater-decodings"
_KEPT = re.compile(r"(\d+)(?:-(\d+))?")
_SEEDS, _SEED = "cutwater-seeds", "cutwater-seed"


class Seed(NamedTuple):
    """What a generation takes over from its parent. It never changes: epochs are computed by it again."""

    folder: str
    floor_ms: int = 0


class Checkpoint:
    """One query's checkpoint location."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self.location = location
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._files = self._path(location).getFileSystem(spark._jsc.hadoopConfiguration())
        self._read = jvm.org.apache.commons.io.IOUtils

    def pin(self, definition: str) -> None:
        """Keep the job's definition beside the checkpoint, or compare it with the one that is kept.

        Raises UsageError when they differ: rows of two definitions would mix in one changelog.
        """
        path = self._path(f"{self.location}/{DEFINITION}")
        if not self._files.exists(path):
            self._keep(path, definition)
        elif (kept := self._text(path)) != definition:
            raise UsageError(
                "the job file no longer says what this generation was started with: "
                f"{differences(kept, definition)}. Put it back, or start a new job or generation; only lateness, "
                "retention, the size of an epoch and which events are usable (max_ahead, max_event_bytes, format "
                "and schema) may change."
            )

    def keep_decoding(self, attempt: int, decoding: str) -> None:
        """Keep how an attempt decodes events from now on; nothing that is kept is ever written over.

        Its first is named by the attempt, its later ones have their number behind that: `5`, `5-1`, `5-2`.
        """
        mine = [number for of, number in self._decodings() if of == attempt]
        name = f"{attempt}-{max(mine) + 1}" if mine else str(attempt)
        self._keep(self._path(f"{self.location}/{_DECODINGS}/{name}"), decoding)

    def newest_decoding(self) -> str | None:
        """What the newest attempt that kept any kept last; None without any."""
        kept = self._decodings()
        if not kept:
            return None
        attempt, number = max(kept)
        name = f"{attempt}-{number}" if number else str(attempt)
        return self._text(self._path(f"{self.location}/{_DECODINGS}/{name}"))

    def _decodings(self) -> list[tuple[int, int]]:
        """(attempt, number within it) of those that are kept."""
        found = [_KEPT.fullmatch(name) for name in self._names(_DECODINGS)]
        return [(int(one[1]), int(one[2] or 0)) for one in found if one]

    def seed_folder(self, attempt: int) -> str:
        """Where an attempt writes the seed of its generation."""
        return f"{self.location}/{_SEEDS}/{attempt}"

    def keep_seed(self, attempt: int, floor_ms: int) -> None:
        """Say that what this attempt has written there is the seed, whole, and what floor goes with it.

        In place of what an older attempt may have said meanwhile, which did not know that it was fenced; never in
        place of a newer one's.
        """
        path = self._path(f"{self.location}/{_SEED}")
        said = self._seeded_by()
        if said is not None and said[0] >= attempt:
            return
        self._files.delete(path, False)
        self._keep(path, f"{attempt} {floor_ms}")

    def seed(self) -> Seed | None:
        """The seed that every attempt begins with; None where none is whole."""
        said = self._seeded_by()
        return None if said is None else Seed(self.seed_folder(said[0]), *said[1:])

    def _seeded_by(self) -> list[int] | None:
        """The attempt; and the floor, which earlier versions did not say."""
        path = self._path(f"{self.location}/{_SEED}")
        return [int(one) for one in self._text(path).split()] if self._files.exists(path) else None

    def bring(self, file: Path, attempt: int) -> str:
        """Move a file of this machine to where executors read it too: what an attempt makes its seed of."""
        folder = f"{self.seed_folder(attempt)}-brought"
        target = self._path(f"{folder}/{file.name}")
        self._files.mkdirs(target.getParent())
        # Not as_uri(): Hadoop takes what stands in a path for itself, %20 for three characters.
        self._files.copyFromLocalFile(True, True, self._path(f"file://{file.resolve()}"), target)
        return folder

    def drop_brought(self, attempt: int) -> None:
        """The seed is made of it."""
        self._files.delete(self._path(f"{self.seed_folder(attempt)}-brought"), True)

    def drop_seeds(self) -> None:
        """Delete what earlier attempts have left of seeds, none of which is whole."""
        self._files.delete(self._path(f"{self.location}/{_SEEDS}"), True)

    def newest_planned(self) -> int:
        """The newest N with `offsets/N`; -1 without any."""
        return self._newest("offsets")

    def newest_committed(self) -> int:
        """The newest N with `commits/N`; -1 without any."""
        return self._newest("commits")

    def is_committed(self, epoch: int) -> bool:
        return bool(self._files.exists(self._path(f"{self.location}/commits/{epoch}")))

    def is_planned(self, epoch: int) -> bool:
        return bool(self._files.exists(self._path(f"{self.location}/offsets/{epoch}")))

    def plan(self, epoch: int) -> Plan:
        """Raises ProtocolError when the file is not of the one form we know (version v1)."""
        place = f"{self.location}/offsets/{epoch}"
        return parse_plan(self._text(self._path(place)), place)

    def _keep(self, path: Any, text: str) -> None:
        # Beside, then renamed: a file that is there is whole.
        beside = self._path(path.getParent(), f".{path.getName()}.tmp")
        stream = self._files.create(beside)
        stream.write(bytearray(text.encode()))
        stream.close()
        self._files.rename(beside, path)

    def _text(self, path: Any) -> str:
        stream = self._files.open(path)
        try:
            return str(self._read.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _newest(self, folder: str) -> int:
        return max((int(name) for name in self._names(folder) if name.isdecimal()), default=-1)

    def _names(self, folder: str) -> list[str]:
        path = self._path(f"{self.location}/{folder}")
        if not self._files.exists(path):
            return []
        return [str(one.getPath().getName()) for one in self._files.listStatus(path)]


def parse_plan(text: str, where: str) -> Plan:
    """Line 1 `v1`, line 2 JSON with the watermark, then one line of offsets per source, in union order.

    Sources that are not Kafka's are no part of the cut. A partition that two sources read is cut at the smaller
    offset: what is below it, both have read.
    """
    lines = text.strip().split("\n")
    try:
        if lines[0] != "v1":
            raise ValueError(f"version {lines[0]!r}")
        parts = [_offsets(line) for line in lines[2:]]
        if all(part is None for part in parts):
            raise ValueError("no source is Kafka's")
        offsets: dict[TopicPartition, int] = {}
        for place, offset in (entry for part in parts if part for entry in part.items()):
            offsets[place] = min(offset, offsets.get(place, offset))
        return Plan(Cut.of(offsets), int(json.loads(lines[1])["batchWatermarkMs"]))
    except (ValueError, IndexError, KeyError, AttributeError, TypeError) as error:
        raise ProtocolError(
            f"{where}: not an offset log of the form v1 with a Kafka source ({error!r}); is Spark 4.1 in use?"
        ) from error


def _offsets(line: str) -> dict[TopicPartition, int] | None:
    """One source's line; None when it is not Kafka's. `-` is a source that has read nothing yet."""
    if line == "-":
        return {}
    found = json.loads(line)
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        return None
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in found.items()
        for partition, offset in partitions.items()
    }
