"""Plays driver and commit-signal for tests of views: writes rows, then the milestones that prove them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import HEADER_BYTES, Codec, crc64
from cutwater.adapters.hashing import key_hash, row_hash
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.candidates import with_partitions
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.job.measures import Measure
from cutwater.core.job.windows import horizon_ms
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import ROOT_HASH
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, fold, signed
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Heartbeat, Milestone
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.follow.applier import Applied
from cutwater.views.follow.follower import Follower
from cutwater.views.query.view import State, View
from cutwater.views.store.store import Store
from support.naming import unique
from support.waits import What, wait_until

GENERATION = Generation(1, "local")
HOUR_MS = 3_600_000
_codecs_of: dict[str, tuple[Codec, Codec]] = {}

_EVENT = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "shop", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "pieces", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    ],
}
_JOB = """
job: {name}
source: {{topic: {name}.events, schema: sale.avsc, key: shop, event_time: at}}
window: {{kind: tumbling, size: 1h}}
lateness: 1h
retention: 24h
partitions: {partitions}
measures:
  sales: {{measure: count}}
  pieces: {{measure: sum, field: pieces}}
  takings: {{measure: sum, field: price}}
  mean: {{measure: avg, field: price}}
"""


class Sold(NamedTuple):
    """One row of the state: `hour` numbers the window."""

    shop: str
    hour: int
    pieces: int


Rows = dict[tuple[str, int], int]
"""Pieces by (shop, window start in ms)."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def make_job(folder: Path, partitions: int = 3) -> tuple[Job, Path]:
    """A job of its own name, and its file."""
    folder.mkdir(parents=True, exist_ok=True)
    name = unique("sales")
    (folder / "sale.avsc").write_text(json.dumps(_EVENT))
    path = folder / f"{name}.yaml"
    path.write_text(_JOB.format(name=name, partitions=partitions))
    job = load_job(path)
    _codecs_of[name] = (Codec(WINDOW_KEY_SCHEMA), Codec(job.state_schema))
    return job, path


def with_measures(job: Job, *more: Measure) -> Job:
    """The same job with more measures, of which its rows have no value."""
    made = replace(job, measures=(*job.measures, *more))
    _codecs_of[job.name] = (Codec(WINDOW_KEY_SCHEMA), Codec(made.state_schema))
    return made


def encoded(job: Job, sold: Sold) -> tuple[bytes, bytes]:
    """Key and value as the driver writes them."""
    start = sold.hour * HOUR_MS
    keys, values = _codecs_of[job.name]
    key = keys.encode({"key": sold.shop, "window_start": start, "window_end": start + HOUR_MS})
    price = Decimal(sold.pieces).scaleb(-2)
    value = {
        "sales": sold.pieces,
        "pieces": Decimal(sold.pieces),
        "takings": price,
        "mean_sum": price,
        "mean_count": 1,
    }
    return key, values.encode(value)


class Writing:
    """One job's changelog and commit stream, written by hand."""

    def __init__(self, cluster: Cluster, job: Job, **changelog_config: str) -> None:
        self.cluster, self.job = cluster, job
        self._changelog_config = changelog_config
        self._make(GENERATION)
        self.renew()
        self._signal = TransactionalWriter(cluster, topics.signal_id(job.name))
        self._signal.initialise()
        self._ends = Offsets(cluster)
        self.last: Milestone | None = None
        self.state_header = b""
        """What values begin with from now on; empty: as single objects."""
        self.state: Rows = {}
        self.by_sequence: dict[int, Rows] = {}

    def renew(self) -> None:
        """Rows are written by another producer from now on."""
        self._producer = Producer({**self.cluster.librdkafka(), "linger.ms": 5, "enable.idempotence": True})

    def _make(self, generation: Generation) -> None:
        """The topics of a generation, which is written from now on."""
        self.generation, other = generation, self._changelog_config
        self.topic = topics.changelog(self.job.name, generation)
        owned = topics.generation_topics(self.job.name, generation, self.job.shards.partitions)
        if generation.number > GENERATION.number:
            owned = [one for one in owned if one.name == self.topic]
        ensure_topics(
            self.cluster,
            [
                replace(one, config=(*(two for two in one.config if two[0] not in other), *other.items()))
                if one.name == self.topic
                else one
                for one in owned
            ],
        )

    def promote(
        self, partitions: int, rows: Iterable[Sold] = (), /, rewinds_to: int = 0, **changes: Any
    ) -> Milestone:
        """Another generation: the state of its parent and `rows`, on a changelog of its own, as one milestone."""
        assert self.last is not None
        self.state = dict(self.by_sequence[rewinds_to or self.last.sequence])
        seeds = [Sold(shop, start // HOUR_MS, pieces) for (shop, start), pieces in self.state.items()]
        self.job = with_partitions(self.job, partitions)
        self._make(Generation(self.generation.number + 1, "local", protocol_records.hash_of(self.last).hex()[:8]))
        return self.epoch([*seeds, *rows], rewinds_to=rewinds_to, **changes)

    def close(self) -> None:
        self._producer.flush(10)

    def rows(
        self, rows: Iterable[Sold], epoch: int, attempt: int = 1, generation: object = None
    ) -> list[tuple[bytes, bytes]]:
        """Put rows on the changelog, with no milestone."""
        headers = [(WRITER_HEADER, f"{generation or self.generation}/{attempt}/{epoch}")]
        written = [(self.partition(one.shop), *self._framed(one)) for one in rows]
        for partition, key, value in written:
            self._producer.produce(self.topic, key=key, value=value, partition=partition, headers=headers)
            self._producer.poll(0)
        assert self._producer.flush(20) == 0
        return [(key, value) for _, key, value in written]

    def _framed(self, sold: Sold) -> tuple[bytes, bytes]:
        key, value = encoded(self.job, sold)
        return key, self.state_header + value[HEADER_BYTES:] if self.state_header else value

    def tombstone(self, sold: Sold) -> None:
        key, _ = encoded(self.job, sold)
        self.record(self.partition(sold.shop), key, None)

    def record(
        self, partition: int, key: bytes | None, value: bytes | None, *headers: tuple[str, bytes | None]
    ) -> None:
        """Anything at all on the changelog."""
        self._producer.produce(self.topic, key=key, value=value, partition=partition, headers=list(headers))
        assert self._producer.flush(20) == 0

    def ends(self) -> dict[int, int]:
        return self._ends.topic_ends(self.topic, self.job.shards.partitions)

    @property
    def cut(self) -> dict[TopicPartition, int]:
        """The changelog cut of the last milestone."""
        assert self.last is not None
        return self.last.changelog_cut.as_dict()

    def partition(self, shop: str) -> int:
        return self.job.shards.partition(self.job.shards.shard(key_hash(shop)))

    def epoch(self, rows: Iterable[Sold], /, **changes: Any) -> Milestone:
        """The next epoch, whole: its rows and its milestone."""
        rows = list(rows)
        epoch = self._next_epoch
        written = self.rows(rows, epoch, attempt=changes.get("attempt", 1))
        return self.milestone(rows, written, **changes)

    @property
    def _next_epoch(self) -> int:
        return self.last.epoch + 1 if self.last and self.last.generation == self.generation else 0

    def milestone(self, rows: Iterable[Sold], written: list[tuple[bytes, bytes]], /, **changes: Any) -> Milestone:
        """A milestone at the present end of the changelog; it proves `written`, each key by its last value."""
        for one in rows:
            self.state[one.shop, one.hour * HOUR_MS] = one.pieces
        last, distinct, now = self.last, dict(written), now_ms()
        ends = self.ends()
        watermark = changes.pop("watermark_ms", last.watermark_ms if last else 0)
        milestone = Milestone(
            job=self.job.name,
            generation=self.generation,
            attempt=1,
            epoch=self._next_epoch,
            sequence=last.sequence + 1 if last else 1,
            parent_hash=protocol_records.hash_of(last) if last else ROOT_HASH,
            barriers_position=0,
            source_cut=Cut(),
            changelog_cut=Cut.of({TopicPartition(self.topic, number): end for number, end in ends.items()}),
            watermark_ms=watermark,
            horizon_ms=horizon_ms(watermark, self.job.rows_retention_ms),
            rows=len(distinct),
            digest=signed(fold(row_hash(key, value) for key, value in distinct.items())),
            events=0,
            rejected=0,
            late=0,
            skew_ms=0,
            schema_fingerprint=crc64(self.job.state_schema).hex(),
            definition=self.job.fingerprint,
            epoch_started_ms=now,
            written_ms=now,
            committed_ms=now,
            **self._by_partition(distinct),
        )
        return self.publish(replace(milestone, **changes))

    def _by_partition(self, rows: dict[bytes, bytes]) -> dict[str, tuple[int, ...]]:
        found: list[list[int]] = [[] for _ in range(self.job.shards.partitions)]
        for key, value in rows.items():
            found[self.partition(KeyReader().window(key).key)].append(row_hash(key, value))
        return {
            "partition_rows": tuple(map(len, found)),
            "partition_digests": tuple(signed(fold(hashes)) for hashes in found),
        }

    def publish(self, milestone: Milestone) -> Milestone:
        """Put a milestone on the commit stream, as commit-signal does."""
        self._signal.write(topics.milestones(self.job.name), [protocol_records.encode(milestone)])
        self.last = milestone
        gone = [at for at in self.state if at[1] + HOUR_MS <= milestone.horizon_ms]
        for at in gone:
            del self.state[at]
        self.by_sequence[milestone.sequence] = dict(self.state)
        return milestone

    def heartbeat(self, at_ms: int, times: int = 1) -> None:
        assert self.last is not None
        beat = Heartbeat(self.job.name, self.generation, 1, self.last.epoch, at_ms)
        self._signal.write(topics.milestones(self.job.name), [protocol_records.encode(beat)] * times)


@contextmanager
def held_back(writing: Writing) -> Iterator[None]:
    """Somebody's open transaction in every partition: what is committed behind it is seen by nobody."""
    client = Producer({**writing.cluster.librdkafka(), "transactional.id": f"{writing.job.name}-open"})
    client.init_transactions(20)
    client.begin_transaction()
    for partition in range(writing.job.shards.partitions):
        client.produce(writing.topic, key=b"k", value=b"never committed", partition=partition)
    assert client.flush(20) == 0
    try:
        yield
    finally:
        client.abort_transaction(20)


class Seen:
    """Counts what a follower does."""

    def __init__(self) -> None:
        self.done: list[tuple[Milestone, Applied]] = []
        self.divergences = self.retries = self.deepest = 0

    def applied(self, milestone: Milestone, done: Applied) -> None:
        self.done.append((milestone, done))

    def backlog(self, milestones: int) -> None:
        self.deepest = max(self.deepest, milestones)

    def retried(self) -> None:
        self.retries += 1

    def diverged(self) -> None:
        self.divergences += 1


class Following:
    """A view with its follower in a thread."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        folder: Path,
        clock: Callable[[], int],
        keeping: Callable[[Store, Seen, dict[str, Any]], Any] | None = None,
        **options: Any,
    ) -> None:
        """`keeping` makes the observer of what else works on the store, and may add to the follower's options."""
        selection = options.pop("selection", None)
        self.store = Store(folder, job, GENERATION, partitions=options.get("partitions"), selection=selection)
        self.view = View(self.store, job)
        self.first_shown = self.view.milestone
        self.seen = Seen()
        observer = keeping(self.store, self.seen, options) if keeping else self.seen
        self._follower = Follower(cluster, job, GENERATION, self.store, self.view, clock, observer, **options)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._follower.run()
        except BaseException as error:
            self._error = error

    @property
    def error(self) -> BaseException | None:
        """What has ended the following."""
        return self._error

    def end(self) -> None:
        self._follower.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()
        self.view.close()
        if self._error:
            raise self._error

    def wait_for(self, sequence: int) -> None:
        def reached() -> bool:
            assert self._error is None, self._error
            return (at := self.view.milestone) is not None and at.sequence >= sequence

        until(reached, f"sequence {sequence}; the view says {self.view.status}")

    def wait_stopped(self) -> str:
        until(lambda: self.view.status.state is State.STOPPED, "the follower to stop")
        return self.view.status.reason

    def rows(self) -> tuple[int, Rows]:
        """The sequence that is shown, and every row of it."""
        milestone, rows = self.view.rows()
        return milestone.sequence, {(row["key"], row["window_start"]): row["pieces"] for row in rows}


@contextmanager
def following(cluster: Cluster, job: Job, folder: Path, clock: Callable[[], int] = now_ms, **options: Any) -> Any:
    """A running view; it is ended, and its error raised, when the block is left."""
    one = Following(cluster, job, folder, clock, **options)
    try:
        yield one
    finally:
        one.end()


def until(done: Callable[[], object], what: What, patience_s: float = 60.0) -> None:
    wait_until(done, what, patience_s, pause_s=0.02)
