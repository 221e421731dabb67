"""A changelog with its milestones, written by hand: what a publisher or a view has to read."""

from __future__ import annotations

import time
from dataclasses import replace

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from benchmarks.publishing.contender import GENERATION, JOB_FILE
from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec, crc64
from cutwater.adapters.hashing import key_hash, row_hash
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter
from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.job.job import WINDOW_KEY_SCHEMA
from cutwater.core.output.position import End, nothing
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import ROOT_HASH
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer, fold, signed
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.publisher.encoding import encoder_for


class Changelog:
    """`rows` rows in milestones of `per_milestone`, behind an empty first one."""

    def __init__(self, cluster: Cluster, rows: int, per_milestone: int) -> None:
        self.job, self.generation = load_job(JOB_FILE), GENERATION
        self._cluster = cluster
        owned = topics.generation_topics(
            self.job.name, self.generation, self.job.shards.partitions, self.job.output
        )
        ensure_topics(cluster, owned)
        self._output = [
            one for one in owned if one.name in (topics.output(self.job.name), topics.published(self.job.name))
        ]
        self._topic = topics.changelog(self.job.name, self.generation)
        self._keys, self._values = Codec(WINDOW_KEY_SCHEMA), Codec(self.job.state_schema)
        self._output_rows = Codec(self.job.output_schema)
        self.output_digest = 0
        """Of the rows that belong on the output, made field by field: nothing that the publisher uses."""
        producer = Producer(
            {
                **cluster.librdkafka(),
                "enable.idempotence": True,
                "compression.type": "lz4",  # this and the size of a batch as the driver's sink has them
                "batch.size": 262_144,
                "linger.ms": 20,
                "queue.buffering.max.messages": 500_000,
            }
        )
        self._ends = Offsets(cluster)
        self._records: list[bytes] = []
        last = self._milestone(None, {})
        for epoch in range(1, -(-rows // per_milestone) + 1):
            first = (epoch - 1) * per_milestone
            last = self._milestone(
                last, self._rows(producer, epoch, range(first, min(rows, first + per_milestone)))
            )
        self.rows, self.milestones = rows, len(self._records)
        writer = TransactionalWriter(cluster, topics.signal_id(self.job.name))
        writer.initialise()
        writer.write(topics.milestones(self.job.name), self._records)

    def restart(self) -> None:
        """An output without rows, and a publisher's position behind the first milestone."""
        admin = AdminClient(self._cluster.librdkafka())
        for future in admin.delete_topics([one.name for one in self._output]).values():
            future.result(30)
        time.sleep(1.0)  # the broker deletes in its own time
        ensure_topics(self._cluster, self._output)
        self._publish_nothing()

    def _publish_nothing(self) -> None:
        """Write what a publisher leaves behind the first milestone, which has no rows.

        Without a position it would begin with the state of the newest milestone, in one transaction.
        """
        first = protocol_records.decode(self._records[0])
        assert isinstance(first, Milestone)
        output, place = topics.output(self.job.name), topics.published(self.job.name)
        ended = End(self.job.name, self.generation, 1, 1, 0, True, 0, 0, first.committed_ms, first.committed_ms)
        encoder = encoder_for(self.job, None)
        marker = {"value": encoder.end(protocol_records.encode(ended), ended)}
        position = replace(
            nothing(self.job.name, self.generation, self.job.output.form), milestone=self._records[0]
        )
        record = {"key": output.encode(), "value": protocol_records.encode(position)}
        writer = TransactionalWriter(self._cluster, topics.publisher_id(self.job.name))
        writer.initialise()
        markers = [Batch(output, number, [marker]) for number in range(self.job.shards.partitions)]
        writer.write_all([*markers, Batch(place, 0, [record])])

    def _rows(self, producer: Producer, epoch: int, numbers: range) -> dict[bytes, bytes]:
        headers = [(WRITER_HEADER, Writer(self.generation, 1, epoch).header)]
        written: dict[bytes, bytes] = {}
        for number in numbers:
            name, start = f"key-{number % 5_000:06}", (number // 5_000) * 60_000
            window = {"key": name, "window_start": start, "window_end": start + 60_000}
            key = self._keys.encode(window)
            values = {"ticks": number, "total": number, "highest": number}
            written[key] = self._values.encode(values)
            told = {"sequence": epoch + 1, "kind": "update", **window, **values}
            self.output_digest ^= row_hash(name.encode(), self._output_rows.encode(told))
            partition = self.job.shards.partition(self.job.shards.shard(key_hash(name)))
            producer.produce(self._topic, key=key, value=written[key], partition=partition, headers=headers)
        producer.flush(60)
        return written

    def _milestone(self, last: Milestone | None, written: dict[bytes, bytes]) -> Milestone:
        ends = self._ends.topic_ends(self._topic, self.job.shards.partitions)
        now, epoch = now_ms(), last.epoch + 1 if last else 0
        milestone = Milestone(
            job=self.job.name, generation=self.generation, attempt=1, epoch=epoch, sequence=epoch + 1,
            parent_hash=protocol_records.hash_of(last) if last else ROOT_HASH,
            barriers_position=0, source_cut=Cut(),
            changelog_cut=Cut.of_topic(self._topic, [ends[number] for number in sorted(ends)]), watermark_ms=0,
            horizon_ms=0, rows=len(written), digest=signed(fold(row_hash(*one) for one in written.items())),
            events=len(written), rejected=0, late=0, skew_ms=0,
            schema_fingerprint=crc64(self.job.state_schema).hex(), definition=self.job.fingerprint,
            epoch_started_ms=now, written_ms=now,
            committed_ms=now,
        )  # fmt: skip
        self._records.append(protocol_records.encode(milestone))
        return milestone
