"""A mirror for tests, in a thread or as a process, and what its copies hold, read without the mirror's code."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import environment
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.job.job import Job
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.mirror_records import Arrival, Mirrored
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.service import Mirror
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.origin import Origin
from cutwater.views.changelog.record_reader import KeyReader
from support.views.changelogs import Rows, Sold, Writing, until

ORIGIN = "local"
"""The region in the ids of the tests' generations."""


class Log(NamedTuple):
    """A record as it stands in a log."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


def read_all(cluster: Cluster, topic: str, partition: int) -> list[Log]:
    """Every committed record of a partition, by a consumer of its own making."""
    settings = {"group.id": "t", "isolation.level": "read_committed", "enable.partition.eof": True}
    settings["fetch.wait.max.ms"] = 10
    consumer = Consumer({**cluster.librdkafka(), **settings})
    consumer.list_topics(topic, timeout=20)  # else an assignment takes 0.7 s to begin
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found = []
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None, f"nothing comes of {topic}/{partition}"
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return found
            found.append(
                Log(
                    message.offset(),
                    message.key(),
                    message.value(),
                    message.headers() or [],
                    message.timestamp()[1],
                )
            )
    finally:
        consumer.close()


def decoded(cluster: Cluster, topic: str) -> list[Any]:
    return [protocol_records.decode(one.value or b"") for one in read_all(cluster, topic, 0)]


def arrivals(cluster: Cluster, job: Job) -> list[Arrival]:
    return decoded(cluster, mirror_records.arrivals(job.name, ORIGIN))


def positions(cluster: Cluster, job: Job) -> dict[tuple[str, int], Mirrored]:
    """The newest of each partition."""
    found: dict[tuple[str, int], Mirrored] = {}
    for record in read_all(cluster, mirror_records.positions(job.name), 0):
        one = protocol_records.decode(record.value) if record.value else None
        if isinstance(one, Mirrored):
            found[one.topic, one.partition] = one
    return found


class Events:
    """The source topic in the origin, and everything that was committed there."""

    def __init__(self, writing: Writing) -> None:
        self.cluster, self.topic = writing.cluster, writing.job.topic
        self.partitions = writing.job.shards.partitions
        ensure_topics(self.cluster, [topics.events(self.topic, self.partitions)])
        self._producer = Producer({**self.cluster.librdkafka(), "linger.ms": 5, "enable.idempotence": True})

    def produce(self, count: int, **more: Any) -> None:
        for number in range(count):
            self._producer.produce(
                self.topic,
                key=b"k%d" % number,
                value=None if number % 11 == 3 else b"v%d" % number * (number % 5),
                partition=number % self.partitions,
                headers=[("trace", b"%d" % number), ("trace", b"again"), ("none", None)],
                **more,
            )
            self._producer.poll(0)
        assert self._producer.flush(20) == 0

    def transaction(self, name: str, count: int, commit: bool) -> None:
        producer = Producer({**self.cluster.librdkafka(), "transactional.id": name})
        producer.init_transactions(20)
        producer.begin_transaction()
        for number in range(count):
            producer.produce(
                self.topic, value=b"%s-%d" % (name.encode(), number), partition=number % self.partitions
            )
        assert producer.flush(20) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(20)

    def cut(self) -> Cut:
        """At the present end."""
        return source_end(self.cluster, self.topic)


def sold(hour: int, amount: int, shops: int = 40) -> list[Sold]:
    return [Sold(f"shop-{number}", hour, amount + number) for number in range(shops)]


def epoch(writing: Writing, events: Events, amount: int) -> int:
    """Events, rows and their milestone, whose sequence it returns."""
    events.produce(30)
    return writing.epoch(sold(1, amount, shops=20), source_cut=events.cut()).sequence


def require_held(writing: Writing, own: Cluster, arrival: Arrival) -> None:
    """I5: below the arrival's local cuts lies every value below its milestone's cuts, and nothing above them."""
    milestone = next(
        one
        for one in decoded(writing.cluster, topics.milestones(writing.job.name))
        if one.sequence == arrival.sequence
    )
    held = {
        (place.topic, place.partition): [one for one in read_all(own, *place) if one.offset < offset]
        for place, offset in arrival.changelog_cut
    }
    rows: Rows = {}
    for place, _ in milestone.changelog_cut:
        newest = {one.key: one.value for one in held[place]}
        rows |= pieces(writing.job, newest, milestone.horizon_ms)
    assert rows == writing.by_sequence[arrival.sequence]
    assert arrival.source_cut.as_dict().keys() == {
        (mirror_records.from_origin(place.topic, ORIGIN), place.partition) for place, _ in milestone.source_cut
    }
    for place, cut in milestone.source_cut:
        target = mirror_records.from_origin(place.topic, ORIGIN)
        local = arrival.source_cut.offset(type(place)(target, place.partition))
        wanted = [one for one in read_all(writing.cluster, *place) if one.offset < cut]
        copied = [one for one in read_all(own, target, place.partition) if one.offset < local]
        assert [original(one) for one in copied] == [(*one[:4], one.timestamp_ms) for one in wanted]


def original(one: Log) -> tuple[Any, ...]:
    """A copied record as it must have stood in the origin."""
    told = dict(one.headers)
    headers = [
        two for two in one.headers if two[0] not in (mirror_records.SOURCE_OFFSET, mirror_records.SOURCE_TIMESTAMP)
    ]
    source_ms = int(told[mirror_records.SOURCE_TIMESTAMP])
    return int(told[mirror_records.SOURCE_OFFSET]), one.key, one.value, headers, source_ms


def pieces(job: Job, newest: dict[bytes | None, bytes | None], horizon_ms: int) -> Rows:
    """The state that the newest values say, above the horizon."""
    values, keys, found = Codec(job.state_schema), KeyReader(), {}
    for key, value in newest.items():
        window = keys.window(key or b"")
        if value is not None and window.end_ms > horizon_ms:
            found[window.key, window.start_ms] = int(values.decode(value)["pieces"])
    return found


def context_of(own: Cluster, origin: Cluster, job: Job, region: str = ORIGIN, **options: Any) -> MirrorContext:
    """What the parts of a mirror share. `options`: `log`, `metrics`, `now_ms`, `clock_s`."""
    reports = {"log": structlog.get_logger(), "metrics": Metrics()}
    return MirrorContext(own, Origin(origin), job.name, region, **{**reports, **options})


def make(own: Cluster, origin: Cluster, job: Job, clock: Callable[[], int] = now_ms, **options: Any) -> Mirror:
    """A mirror that is not running yet."""
    shared = {name: options.pop(name) for name in ("clock_s", "log", "metrics") if name in options}
    return Mirror(context_of(own, origin, job, now_ms=clock, **shared), job, **options)


@contextmanager
def mirroring(
    own: Cluster, origin: Cluster, job: Job, *clock: Callable[[], int], **options: Any
) -> Iterator[Running]:
    """A running mirror; ended, and its error raised, when the block is left."""
    one = Running(make(own, origin, job, *clock, **options))
    try:
        yield one
    finally:
        one.end()


class Running:
    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.metrics: Metrics = mirror.metrics
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.mirror.run()
        except BaseException as error:
            self.error = error

    def until(self, done: Callable[[], object], what: str) -> None:
        def reached() -> object:
            if self.error is not None:
                raise self.error
            return done()

        until(reached, lambda: f"{what}; stopped: {self.mirror.copier.stopped}")

    def end(self) -> None:
        self.mirror.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.error:
            raise self.error


def wait_arrived(running: Running, own: Cluster, job: Job, sequence: int) -> Arrival:
    """The newest arrival, once it is at least of this sequence."""
    running.until(
        lambda: any(one.sequence >= sequence for one in arrivals(own, job)), f"the arrival of {sequence}"
    )
    return arrivals(own, job)[-1]


def arrived_once(own: Cluster, writing: Writing, events: Events) -> Arrival:
    """The arrival of a first epoch, whose mirror has ended."""
    with mirroring(own, writing.cluster, writing.job) as mirror:
        return wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))


def wait_stopped(mirror: Running, topic: str, cause: str) -> str:
    """Why a topic stands still, once it does."""
    mirror.until(lambda: topic in mirror.mirror.copier.stopped, f"{topic} to be stopped")
    gap = mirror.mirror.copier.stopped[topic]
    assert gap.cause == cause, gap
    count = mirror.metrics.registry.get_sample_value("cutwater_mirror_gaps_total", {"cause": cause})
    assert (count, mirror.metrics.registry.get_sample_value("cutwater_mirror_stopped", {"topic": topic})) == (1, 1)
    return gap.text


def wait_copied(mirror: Running, own: Cluster, writing: Writing) -> None:
    """The other topics go on: what is on the changelog now is copied."""
    ends = writing.ends()

    def done() -> bool:
        found = positions(own, writing.job)
        return all(found[writing.topic, number].next == end for number, end in ends.items())

    mirror.until(done, "the changelog to be copied on")


def environment_of(own: Cluster, origin: Cluster) -> dict[str, str]:
    theirs = {name.replace("CUTWATER_", "CUTWATER_ORIGIN_"): value for name, value in environment(origin).items()}
    return {
        **os.environ,
        **environment(own),
        **theirs,
        "CUTWATER_ORIGIN_REGION": ORIGIN,
        "CUTWATER_REGION": "there",
    }


def process(own: Cluster, origin: Cluster, job_file: Path, log: Path, **env: str) -> subprocess.Popen[bytes]:
    """`python -m cutwater.mirror` with its output in a file."""
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "cutwater.mirror", str(job_file)],
            env={**environment_of(own, origin), **env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
