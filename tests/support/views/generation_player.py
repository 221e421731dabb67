"""Plays the driver of a second generation: its own changelog, seeded with the state that it starts from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from confluent_kafka import Producer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.core.job.shards import ShardMap
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from support.views.changelogs import HOUR_MS, Rows, Sold, Writing


class Next(Writing):
    """The generation behind another one's."""

    def __init__(
        self,
        before: Writing,
        start: int,
        partitions: int = 6,
        rewinds: bool = False,
        number: int | None = None,
    ) -> None:
        """`start`: the sequence of the milestone that it starts from; `rewinds`: back to its state."""
        assert before.last is not None
        parent = before.last
        self._behind = parent
        self._rewinds_to = start if rewinds else 0
        self.cluster = before.cluster
        self.job = replace(before.job, shards=ShardMap(before.job.shards.shards, partitions))
        self.generation = Generation(
            number or parent.generation.number + 1, "local", protocol_records.hash_of(parent).hex()[:8]
        )
        self.topic = topics.changelog(self.job.name, self.generation)
        owned = topics.generation_topics(self.job.name, self.generation, partitions)
        ensure_topics(self.cluster, [one for one in owned if one.name == self.topic])
        self._producer = Producer({**self.cluster.librdkafka(), "linger.ms": 5, "enable.idempotence": True})
        self._signal = before._signal
        self._ends = Offsets(self.cluster)
        self.last = None
        self.state_header = b""
        self.seeds: Rows = dict(before.by_sequence[start])
        self.state = {}
        self.by_sequence = dict(before.by_sequence)

    def rows(
        self, rows: Iterable[Sold], epoch: int, attempt: int = 1, generation: object = None
    ) -> list[tuple[bytes, bytes]]:
        return super().rows(rows, epoch, attempt, generation or self.generation)

    def promoted(self, rows: Iterable[Sold], /, **changes: Any) -> Milestone:
        """The first milestone: the seeds, and over them these rows."""
        first = {**self.seeds, **{(one.shop, one.hour * HOUR_MS): one.pieces for one in rows}}
        behind = {
            "sequence": self._behind.sequence + 1,
            "parent_hash": protocol_records.hash_of(self._behind),
            "watermark_ms": self._behind.watermark_ms,
            "rewinds_to": self._rewinds_to,
        }
        sold = [Sold(shop, start // HOUR_MS, pieces) for (shop, start), pieces in first.items()]
        return self.epoch(sold, **{**behind, **changes})

    def milestone(self, rows: Iterable[Sold], written: list[tuple[bytes, bytes]], /, **changes: Any) -> Milestone:
        return super().milestone(rows, written, **{"generation": self.generation, **changes})
