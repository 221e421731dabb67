"""Kafka Streams: a table whose changelog is the very topic, restored to RocksDB by the library itself."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks.harness.java_program import JAVA_FOLDER, class_path
from benchmarks.harness.streams_program import HEAP
from benchmarks.rehydrate.contest import Contents, Contest, Moments, Wrong
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

SOURCE = JAVA_FOLDER / "B1Streams.java"
_LARGER_POLLS = (
    "restore.consumer.max.poll.records=50000",
    "restore.consumer.max.partition.fetch.bytes=16777216",
    "restore.consumer.fetch.max.bytes=67108864",
    "restore.consumer.receive.buffer.bytes=4194304",
)
SETTINGS: dict[str, tuple[str, ...]] = {
    "kafka-streams": (),
    "kafka-streams-tuned": ("b1.write.buffer.mb=64", *_LARGER_POLLS),
    "kafka-streams-bulk": ("b1.write.buffer.mb=4", "b1.compaction=off", *_LARGER_POLLS),
}
"""Settings beside the defaults, by contender. `bulk` never compacts: what it would owe is not in its figures."""


class StreamsContest(Contest):
    def child(self) -> Child:
        self._commit_ends()
        # A row of the state whatever the horizon: the newest window's.
        key = max(self.log.probe, key=lambda one: one[-12:])
        stage = self.stage
        jvm = [f"-Xmx{HEAP}", "-XX:+UseParallelGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        where = [stage.cluster.bootstrap, self.log.topic, self.name, str(self.folder / "state"), str(self.folder)]
        probe = [key.hex(), self.log.probe[key].hex()]
        program = ["-cp", class_path(stage.java, SOURCE, stage.streams_jars), SOURCE.stem]
        argv = [str(stage.java), *jvm, *program, *where, *probe, *SETTINGS[self.contender]]
        return Child(self.name, argv, {}, self.folder / "log.txt", RestartPolicy())

    def first_read(self, child: Child) -> Moments:
        told = self._read_result(child, "read.json", "the first read")
        moments = Moments(told["begun_ms"] / 1000, told["read_ms"] / 1000)
        if told["restored"] != self.log.records:
            raise Wrong(moments, f"{told['restored']} of {self.log.records} records were restored")
        return moments

    def contents(self, child: Child) -> Contents:
        (self.folder / "count").touch()
        told = self._read_result(child, "contents.json", "the count of its rows")
        return Contents(told["rows"], int(told["digest"], 16))

    def _read_result(self, child: Child, name: str, what: str) -> Any:
        """What the program wrote into a file, once it has."""
        place = self.folder / name
        while not place.exists():
            self.waiting(child, what)
        return json.loads(place.read_text(encoding="utf-8"))

    def _commit_ends(self) -> None:
        """A topic that is source and changelog in one is restored up to the group's position, and processed from
        there: without a position nothing would be restored."""
        ends = self.log.last.changelog_cut
        consumer = Consumer({**self.stage.cluster.librdkafka(), "group.id": self.name})
        try:
            consumer.commit(
                offsets=[TopicPartition(place.topic, place.partition, end) for place, end in ends],
                asynchronous=False,
            )
        finally:
            consumer.close()
