"""Spark's checkpoint, in a local folder or an object store, through Hadoop's file system."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from cutwater.core.errors import MachineError, ProtocolError, UsageError
from cutwater.core.job.job import differences
from cutwater.core.protocol.cuts import Cut, EpochPlan, TopicPartition
from cutwater.operations.generations.start_check import DEFINITION

_DECODINGS = "cutwater-decodings"
_KEPT = re.compile(r"(\d+)(?:-(\d+))?")
_KEPT_MAX = 20
"""Stored decodings. Only the newest counts; a cleaning stores two, and a folder of thousands is slow to list."""
_SEEDS, _SEED = "cutwater-seeds", "cutwater-seed"


class Seed(NamedTuple):
    """The state that a generation takes over from its parent. It never changes: replayed epochs use it again."""

    folder: str
    floor_ms: int = 0


class Checkpoint:
    def __init__(self, spark: SparkSession, location: str) -> None:
        self.location = location
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._files = self._path(location).getFileSystem(spark._jsc.hadoopConfiguration())
        self._read = jvm.org.apache.commons.io.IOUtils

    def pin(self, definition: str) -> None:
        """Store the job's definition. Raise UsageError if another is stored: rows would mix in one changelog."""
        path = self._path(f"{self.location}/{DEFINITION}")
        if not self._files.exists(path):
            self._keep(path, definition)
        elif (kept := self._text(path)) != definition:
            raise UsageError(
                "the job file differs from what this generation was started with: "
                f"{differences(kept, definition)}. Only lateness, retention, the size of an epoch and which "
                "events are usable (max_ahead, max_event_bytes, format and schema) may change. Undo the change, "
                "or start a new job or generation."
            )

    def keep_decoding(self, attempt: int, decoding: str) -> None:
        """Store an attempt's decoding from now on, never over another. Attempt 5's files: `5`, `5-1`, `5-2`."""
        kept = sorted(self._decodings())
        mine = [number for of, number in kept if of == attempt]
        self._keep(self._decoding_path(attempt, max(mine) + 1 if mine else 0), decoding)
        for old in kept[:-_KEPT_MAX]:
            self._files.delete(self._decoding_path(*old), False)

    def newest_decoding(self) -> str | None:
        """Return the last decoding of the newest attempt that stored one; None if there is none."""
        kept = self._decodings()
        if not kept:
            return None
        return self._text(self._decoding_path(*max(kept)))

    def _decoding_path(self, attempt: int, number: int) -> Any:
        name = f"{attempt}-{number}" if number else str(attempt)
        return self._path(f"{self.location}/{_DECODINGS}/{name}")

    def _decodings(self) -> list[tuple[int, int]]:
        """Return (attempt, number within it) of each stored decoding."""
        found = [_KEPT.fullmatch(name) for name in self._names(_DECODINGS)]
        return [(int(one[1]), int(one[2] or 0)) for one in found if one]

    def seed_folder(self, attempt: int) -> str:
        return f"{self.location}/{_SEEDS}/{attempt}"

    def seed_rows_folder(self, attempt: int) -> str:
        """Return where an attempt's seed is before measures of `kept: state` are counted again."""
        return f"{self.seed_folder(attempt)}-rows"

    def drop_seed_rows(self, attempt: int) -> None:
        """Delete the rows of the folder before, once the seed is written."""
        self._files.delete(self._path(self.seed_rows_folder(attempt)), True)

    def keep_seed(self, attempt: int, floor_ms: int) -> None:
        """Record that the seed of this attempt is complete, with its floor.

        This replaces the record of an older attempt, which may not have noticed its fencing, never a newer one's.
        """
        path = self._path(f"{self.location}/{_SEED}")
        said = self._read_seed_record()
        if said is not None and said[0] >= attempt:
            return
        self._files.delete(path, False)
        self._keep(path, f"{attempt} {floor_ms}")

    def seed(self) -> Seed | None:
        """Return the seed that every attempt starts from; None if none is complete.

        A record without its folder is of an attempt that did not notice its fencing: the next one had deleted its
        files before, and was killed before it recorded its own.
        """
        said = self._read_seed_record()
        if said is None or not self._files.exists(self._path(self.seed_folder(said[0]))):
            return None
        return Seed(self.seed_folder(said[0]), *said[1:])

    def _read_seed_record(self) -> list[int] | None:
        """Return the attempt and its floor; earlier versions recorded no floor."""
        path = self._path(f"{self.location}/{_SEED}")
        return [int(one) for one in self._text(path).split()] if self._files.exists(path) else None

    def upload_seed_input(self, file: Path, attempt: int) -> str:
        """Move a local file, the input of an attempt's seed, to where executors can read it."""
        folder = f"{self.seed_folder(attempt)}-brought"
        target = self._path(f"{folder}/{file.name}")
        self._files.mkdirs(target.getParent())
        # Not as_uri(): Hadoop reads %20 in a path as three characters.
        self._files.copyFromLocalFile(True, True, self._path(f"file://{file.resolve()}"), target)
        return folder

    def drop_seed_input(self, attempt: int) -> None:
        """Delete the moved file, once the seed is written."""
        self._files.delete(self._path(f"{self.seed_folder(attempt)}-brought"), True)

    def drop_seeds(self) -> None:
        """Delete the incomplete seeds of earlier attempts."""
        self._files.delete(self._path(f"{self.location}/{_SEEDS}"), True)

    def newest_planned(self) -> int:
        """Return the newest N with `offsets/N`; -1 if there is none."""
        return self._newest("offsets")

    def newest_committed(self) -> int:
        """Return the newest N with `commits/N`; -1 if there is none."""
        return self._newest("commits")

    def is_committed(self, epoch: int) -> bool:
        return bool(self._files.exists(self._path(f"{self.location}/commits/{epoch}")))

    def is_planned(self, epoch: int) -> bool:
        return bool(self._files.exists(self._path(f"{self.location}/offsets/{epoch}")))

    def plan(self, epoch: int) -> EpochPlan:
        """Return the epoch's plan. Raise ProtocolError if the file is not an offset log of version v1."""
        place = f"{self.location}/offsets/{epoch}"
        return parse_plan(self._text(self._path(place)), place)

    def _keep(self, path: Any, text: str) -> None:
        # Written beside and renamed, so that a file under its name is complete.
        beside = self._path(path.getParent(), f".{path.getName()}.tmp")
        stream = self._files.create(beside)
        stream.write(bytearray(text.encode()))
        stream.close()
        self._files.rename(beside, path)

    def _text(self, path: Any) -> str:
        """Return a file's text. Raise MachineError for an empty file: a power failure leaves one, and its checksum
        file is empty too, so that Hadoop finds no fault."""
        stream = self._files.open(path)
        try:
            text = str(self._read.toString(stream, "UTF-8"))
        finally:
            stream.close()
        if not text:
            raise explain_damage(self.location, f"{path.toString()} is empty, as after a power failure")
        return text

    def _newest(self, folder: str) -> int:
        return max((int(name) for name in self._names(folder) if name.isdecimal()), default=-1)

    def _names(self, folder: str) -> list[str]:
        path = self._path(f"{self.location}/{folder}")
        if not self._files.exists(path):
            return []
        return [str(one.getPath().getName()) for one in self._files.listStatus(path)]


def explain_damage(checkpoint: str, what: str) -> MachineError:
    """Return the error for a checkpoint of which a file cannot be read."""
    return MachineError(
        f"the checkpoint {checkpoint} is damaged: {what}. Put back a copy that is as new as the last "
        "milestone (an older one is refused), or start a new generation from that milestone"
    )


def parse_plan(text: str, where: str) -> EpochPlan:
    """Parse line 1 `v1`, line 2 JSON with the watermark, then one line of offsets per source, in union order.

    Only Kafka sources are part of the cut. A partition that two sources read is cut at the smaller offset: both
    have read everything below it.
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
        return EpochPlan(Cut.of(offsets), int(json.loads(lines[1])["batchWatermarkMs"]))
    except (ValueError, IndexError, KeyError, AttributeError, TypeError) as error:
        raise ProtocolError(
            f"{where}: not an offset log of version v1 with a Kafka source ({error!r}). Is Spark 4.1 in use?"
        ) from error


def _offsets(line: str) -> dict[TopicPartition, int] | None:
    """Parse one source's line; None if it is not Kafka's. `-`: the source has read nothing yet."""
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
