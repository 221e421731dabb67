"""A `read_committed` consumer of an output topic in a process of its own: when was the last row readable?

python -m benchmarks.windows.output_reader BOOTSTRAP TOPIC PARTITIONS FOLDER newest|all

Reads from the topic's start up to the ends that `ends.json` in the folder names, whenever that appears, and then
writes `output.pickle` there. With `newest` it holds the newest row per key; with `all` every row.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, TopicPartition

from cutwater.adapters.kafka.client import make_consumer, raise_read_error
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.core.errors import UnavailableError
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

NEWEST, ALL = "newest", "all"
_POLL_S = 0.1
_BATCH = 20_000
_QUEUE_KB = 65_536
_STOP_S, _PATIENCE_S, _LOOK_S = 5.0, 300.0, 0.05


class OutputRead(NamedTuple):
    """What the consumer has received. End markers have no key and count as no rows."""

    rows: list[tuple[bytes, bytes]]
    received: int
    """Number of rows, those included of which a newer one is held."""
    last_s: float
    """When the last row was received, in seconds since 1970."""
    cpu_s: float


class RowCollector:
    """Takes the messages in the order in which they are received."""

    def __init__(self, partitions: int, hold: str) -> None:
        self._newest = hold == NEWEST
        self._by_key: dict[bytes, bytes] = {}
        self._all: list[tuple[bytes, bytes]] = []
        self._next = dict.fromkeys(range(partitions), 0)
        self._received, self._last_s = 0, 0.0

    def add(self, messages: list[Message], at_s: float) -> None:
        """Take what one read returned at `at_s`."""
        before = self._received
        for message in messages:
            error = message.error()
            if error is None:
                self._next[message.partition()] = message.offset() + 1
                self._add_row(message.key(), message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                self._next[message.partition()] = message.offset()
            else:
                raise_read_error(error, message.topic(), message.partition())
        if self._received > before:
            self._last_s = at_s

    def _add_row(self, key: bytes | None, value: bytes) -> None:
        if key is None:
            return
        self._received += 1
        if self._newest:
            self._by_key[key] = value
        else:
            self._all.append((key, value))

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        return all(self._next[partition] >= end for partition, end in ends.items())

    def result(self, cpu_s: float) -> OutputRead:
        rows = list(self._by_key.items()) if self._newest else self._all
        return OutputRead(rows, self._received, self._last_s, cpu_s)


class OutputReader:
    """The harness's side of that process, which runs inside a `with` block."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, folder: Path, hold: str) -> None:
        self._cluster, self._topic, self._partitions = cluster, topic, partitions
        self._ends, self._result = _files(folder)
        where = [cluster.bootstrap, topic, str(partitions), str(folder), hold]
        argv = [sys.executable, "-m", "benchmarks.windows.output_reader", *where]
        self._child = Child(f"reader of {topic}", argv, {}, folder / "output-reader.txt", RestartPolicy())

    def __enter__(self) -> OutputReader:
        self._child.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.stop(_STOP_S)

    def read_to_end(self) -> OutputRead:
        """Return what was received up to the topic's present end. Raise UnavailableError if it takes too long."""
        ends = Offsets(self._cluster).topic_ends(self._topic, self._partitions)
        _write(self._ends, json.dumps(ends).encode())
        deadline = time.monotonic() + _PATIENCE_S
        while not self._result.exists():
            if self._child.poll() is not None or time.monotonic() > deadline:
                raise UnavailableError(f"{self._topic} was not read to its end. {self._child.describe_end()}")
            time.sleep(_LOOK_S)
        found = OutputRead(*pickle.loads(self._result.read_bytes()))
        self._result.unlink()  # it may be large
        return found


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / "ends.json", folder / "output.pickle"


def _write(path: Path, data: bytes) -> None:
    """Write a file that is complete once it has its name."""
    fresh = path.with_name(path.name + ".part")
    fresh.write_bytes(data)
    fresh.rename(path)


def _ends(path: Path) -> dict[int, int] | None:
    if not path.exists():
        return None
    return {int(partition): end for partition, end in json.loads(path.read_bytes()).items()}


def main(bootstrap: str, topic: str, count: str, folder: str, hold: str) -> None:
    partitions, collector = int(count), RowCollector(int(count), hold)
    ends_file, result = _files(Path(folder))
    consumer = make_consumer(Cluster(bootstrap), **{"queued.max.messages.kbytes": _QUEUE_KB})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    ends: dict[int, int] | None = None
    while ends is None or not collector.has_reached(ends):
        first = consumer.poll(_POLL_S)
        if first is not None:
            messages = [first, *consumer.consume(_BATCH, timeout=0)]
            collector.add(messages, time.time())
        ends = ends or _ends(ends_file)
    consumer.close()
    # A plain tuple: a class of this process's main module is unknown elsewhere.
    _write(result, pickle.dumps(tuple(collector.result(time.process_time()))))


if __name__ == "__main__":
    main(*sys.argv[1:])
