"""A workload put on its topics once, for all contenders: changelog, milestones, and what a right store holds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from numpy.typing import NDArray

from benchmarks.rehydrate.workloads import (
    EPOCH_ROWS_MAX,
    START_MS,
    WINDOW_MS,
    WINDOWS,
    Maker,
    Rows,
    Workload,
    partitions_of,
)
from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec, crc64
from cutwater.adapters.hashing import row_hash
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import WINDOW_KEY_SCHEMA
from cutwater.core.job.windows import horizon_ms
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import ROOT_HASH
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer, fold, signed
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

JOB_FILE = Path(__file__).parents[1] / "jobs" / "b1.yaml"
GENERATION = Generation(1, "local")
_FLUSH_S = 60.0


class Log:
    """Generates and writes in the constructor; then `rows` and `digest` are those of every right store.

    Of a workload with a tail, that comes by `add_tail`, behind a snapshot of what is there.
    """

    def __init__(self, cluster: Cluster, workload: Workload, size: int, seed: int, folder: Path) -> None:
        """`folder`: for the job's own file and schema. UnavailableError when a record is not acknowledged."""
        self.workload, self._cluster = workload, cluster
        self.job_file = _job_file(folder, f"b1-{workload.name}")
        self.job = load_job(self.job_file)
        self.topic = topics.changelog(self.job.name, GENERATION)
        ensure_topics(
            cluster,
            topics.generation_topics(self.job.name, GENERATION, self.job.shards.partitions, self.job.output),
        )
        self.groups = groups = workload.groups(size)
        self._partitions = partitions_of(groups, self.job)
        self._maker = Maker(groups, seed, Codec(WINDOW_KEY_SCHEMA).header, Codec(self.job.state_schema).header)
        self.records = self.rows = self.digest = 0
        """What stands on the changelog; count and digest of the rows of the state."""
        self.snapshots: Path | None = None
        """Where a view may begin."""
        self._newest = np.zeros((groups, WINDOWS), np.uint64)
        """The hash of each row of the state."""
        self.probe: dict[bytes, bytes] = {}
        """Every row of the state of the first group."""
        self._sender, self._ends = Sender(cluster, self.topic), Offsets(cluster)
        self._milestones: list[Milestone] = []
        began = time.monotonic()
        self._write(groups)
        self.seconds = time.monotonic() - began
        self._signal = TransactionalWriter(cluster, topics.signal_id(self.job.name))
        self._signal.initialise()
        self._write_milestones(0)
        if not workload.tail:
            self._end()

    def add_tail(self, snapshots: Path) -> None:
        """What is written behind the snapshot, which lies in that folder."""
        told = len(self._milestones)
        for rows in self._maker.some(self.workload.tail, self.workload.updates):
            self._epoch(rows)
        self._write_milestones(told)
        self.snapshots = snapshots
        self._end()

    def add_epoch(self, rows: int) -> None:
        """So many rows, written once more, and their milestone: the job goes on."""
        told = len(self._milestones)
        for some in self._maker.some(rows / (self.groups * WINDOWS), told):
            self._epoch(some)
        self._write_milestones(told)

    def _write_milestones(self, first: int) -> None:
        """The milestones from this one on, on the commit stream."""
        self._signal.write(
            topics.milestones(self.job.name), list(map(protocol_records.encode, self._milestones[first:]))
        )

    def _end(self) -> None:
        self.rows, self.digest = self.state()
        del self._sender, self._ends, self._maker, self._signal  # clients that outlive the broker complain

    def state(self) -> tuple[int, int]:
        """Count and digest of the rows of the state as it is now."""
        live = self._newest[:, self.workload.closed :]
        return live.size, int(np.bitwise_xor.reduce(live, axis=None))

    @property
    def milestones(self) -> int:
        return len(self._milestones)

    def since(self, sequence: int) -> Sequence[Milestone]:
        """The milestones behind that sequence, in order."""
        return self._milestones[sequence:]

    @property
    def last(self) -> Milestone:
        """The milestone that a reader restores."""
        return self._milestones[-1]

    def _write(self, groups: int) -> None:
        for number in range(self.workload.updates):
            for rows in self._maker.round(number):
                self._epoch(rows)
        if self.workload.closed:
            self._bury(groups)

    def _epoch(self, rows: Rows) -> None:
        """The rows of an epoch, and its milestone."""
        partitions = self._partitions[rows.group]
        self._sender.send(rows.keys, rows.values, partitions, self._writer)
        self.records += len(rows.keys)
        hashes = np.fromiter(map(row_hash, rows.keys, rows.values), np.uint64, len(rows.keys))
        self._milestone(partitions, hashes)
        self._newest[rows.group, rows.window] = hashes
        for at in np.flatnonzero((rows.window >= self.workload.closed) & (rows.group == 0)).tolist():
            self.probe[rows.keys[at]] = rows.values[at]

    def _bury(self, groups: int) -> None:
        """An epoch without rows, whose horizon closes windows, and the tombstones of those."""
        for window in range(self.workload.closed):
            for first in range(0, groups, EPOCH_ROWS_MAX):
                group = np.arange(first, min(groups, first + EPOCH_ROWS_MAX))
                keys = self._maker.keys(group, np.full(len(group), window))
                self._sender.send(keys, [None] * len(keys), self._partitions[group], self._writer)
                self.records += len(keys)
        self._milestone(np.empty(0, np.int64), np.empty(0, np.uint64), closed=self.workload.closed)

    @property
    def _writer(self) -> bytes:
        return Writer(GENERATION, 1, len(self._milestones)).header

    def _milestone(self, partitions: NDArray[np.int64], hashes: NDArray[np.uint64], closed: int = 0) -> None:
        last, now = self._milestones[-1] if self._milestones else None, now_ms()
        job, epoch = self.job, len(self._milestones)
        ends = self._ends.topic_ends(self.topic, job.shards.partitions)
        # All windows are open by the clock of the events, or so many have passed the horizon.
        watermark = START_MS + closed * WINDOW_MS + job.retention_ms if closed else START_MS + WINDOWS * WINDOW_MS
        parts = [hashes[partitions == number] for number in range(job.shards.partitions)]
        digests = [int(np.bitwise_xor.reduce(part)) for part in parts]
        self._milestones.append(Milestone(
            job=job.name, generation=GENERATION, attempt=1, epoch=epoch, sequence=epoch + 1,
            parent_hash=protocol_records.hash_of(last) if last else ROOT_HASH,
            barriers_position=0, source_cut=Cut(),
            changelog_cut=Cut.of_topic(self.topic, [ends[number] for number in sorted(ends)]),
            watermark_ms=watermark, horizon_ms=horizon_ms(watermark, job.retention_ms),
            rows=len(hashes), digest=signed(fold(digests)), events=len(hashes), rejected=0, late=0, skew_ms=0,
            schema_fingerprint=crc64(job.state_schema).hex(), definition=job.fingerprint, epoch_started_ms=now,
            written_ms=now,
            committed_ms=now, partition_rows=tuple(map(len, parts)), partition_digests=tuple(map(signed, digests)),
        ))  # fmt: skip


class Sender:
    """A producer with the settings of the driver's sink, as far as they show in the log."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._failures: list[KafkaError] = []
        settings: dict[str, Any] = {
            "enable.idempotence": True, "compression.type": "lz4", "batch.size": 262_144, "linger.ms": 20,
            "queue.buffering.max.messages": 500_000, "log_level": 3,
        }  # fmt: skip
        self._producer = Producer({**cluster.librdkafka(), **settings, "on_delivery": self._delivered})

    def send(
        self, keys: list[bytes], values: list[bytes] | list[None], partitions: NDArray[np.int64], writer: bytes
    ) -> None:
        """Returns when all are acknowledged; UnavailableError when one is not."""
        produce, topic, headers = self._producer.produce, self._topic, [(WRITER_HEADER, writer)]
        for key, value, partition in _rows(keys, values, partitions):
            produce(topic, value=value, key=key, partition=partition, headers=headers)
        left = self._producer.flush(_FLUSH_S)
        if self._failures or left:
            raise UnavailableError(f"{topic}: {left or len(self._failures)} records were not acknowledged")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(error)


def _rows(
    keys: list[bytes], values: list[bytes] | list[None], partitions: NDArray[np.int64]
) -> Iterator[tuple[bytes, bytes | None, int]]:
    return zip(keys, values, partitions.tolist(), strict=True)


def _job_file(folder: Path, name: str) -> Path:
    """A job of this name, in a folder of its own."""
    place = folder / name
    place.mkdir(parents=True)
    text = JOB_FILE.read_text(encoding="utf-8").replace("job: b1\n", f"job: {name}\n")
    (place / JOB_FILE.name).write_text(text, encoding="utf-8")
    schema = JOB_FILE.with_name("note.avsc")
    (place / schema.name).write_bytes(schema.read_bytes())
    return place / JOB_FILE.name
