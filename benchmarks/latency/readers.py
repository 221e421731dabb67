"""Readers that run beside a contender and note when they see what. Each in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from types import TracebackType

import httpx
from confluent_kafka import KafkaError, TopicPartition

from benchmarks.windows.columns import PARTITIONS
from cutwater.adapters.kafka.client import make_consumer, raise_read_error
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client import CommittedMilestone, committed
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation, Token

_POLL_S = 0.2
_JOIN_S = 20.0
_WAIT_MS = 2_000
_BATCH = 10_000
_FILES_S = 2.0


class Watcher:
    """A thread inside a `with` block; an error in it is raised at the block's end."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._thread.join(_JOIN_S)
        if self._error is not None and kind is None:
            raise self._error

    def watch(self) -> None:
        raise NotImplementedError

    def _guarded(self) -> None:
        try:
            self.watch()
        except BaseException as error:  # raised again at the end of the block
            self._error = error


class Committed(Watcher):
    """The client library: when did `committed()` yield each milestone?"""

    def __init__(self, job: Job, cluster: Cluster) -> None:
        super().__init__()
        self._job = job
        self._cluster = cluster
        self.seen: list[tuple[int, CommittedMilestone]] = []
        """(ns since 1970, milestone)."""

    def watch(self) -> None:
        for milestone in committed(self._job, self._cluster, stop=self.stopping.is_set):
            self.seen.append((time.time_ns(), milestone))


class Visible(Watcher):
    """The view: when did the API show each sequence? Asks for the next one, and is answered once it is there."""

    def __init__(self, url: str, generation: Generation) -> None:
        super().__init__()
        self._url = url
        self._generation = generation
        self.seen: list[tuple[int, int]] = []
        """(ns since 1970, sequence); where the view leapt, the later one only."""

    def watch(self) -> None:
        sequence = 0
        with httpx.Client(base_url=self._url, timeout=30.0) as api:
            while not self.stopping.is_set():
                token = str(Token(self._generation, sequence + 1))
                try:
                    answer = api.get("/v1/milestone", params={"at_least": token, "wait_ms": _WAIT_MS})
                except httpx.HTTPError:
                    if self.stopping.wait(_POLL_S):
                        return
                    continue
                if answer.is_success:
                    sequence = int(answer.json()["sequence"])
                    self.seen.append((time.time_ns(), sequence))


class Output(Watcher):
    """A `read_committed` consumer of an output topic, for contenders that are not Cutwater."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._topic = topic
        self.seen: list[tuple[int, bytes, bytes]] = []
        """(ns since 1970, key, value)."""

    def watch(self) -> None:
        consumer = make_consumer(self._cluster)
        try:
            consumer.assign([TopicPartition(self._topic, number, 0) for number in range(PARTITIONS)])
            while not self.stopping.is_set():
                first = consumer.poll(_POLL_S)
                messages = [] if first is None else [first, *consumer.consume(_BATCH, timeout=0)]
                now = time.time_ns()
                for message in messages:
                    error = message.error()
                    if error is None:
                        self.seen.append((now, message.key(), message.value()))
                    elif error.code() != KafkaError._PARTITION_EOF:
                        raise_read_error(error, self._topic, message.partition())
        finally:
            consumer.close()


class CheckpointFiles(Watcher):
    """When Spark wrote the plan and the commit of each epoch: it keeps the files of the newest hundred only."""

    def __init__(self, location: Path) -> None:
        super().__init__()
        self._location = location
        self.offsets: dict[int, int] = {}
        """By epoch, ns since 1970."""
        self.commits: dict[int, int] = {}

    def watch(self) -> None:
        while not self.stopping.wait(_FILES_S):
            self._look()
        self._look()

    def _look(self) -> None:
        for name, found in (("offsets", self.offsets), ("commits", self.commits)):
            folder = self._location / name
            for one in folder.iterdir() if folder.exists() else ():
                if one.name.isdecimal() and int(one.name) not in found:
                    with contextlib.suppress(FileNotFoundError):  # Spark has just deleted it
                        found[int(one.name)] = one.stat().st_mtime_ns
