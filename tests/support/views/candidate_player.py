"""Plays a generation that is claimed and works beside the one before it, until it is promoted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from broker.views.changelog.test_missing_records import truncate
from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Candidacy, Claim, Milestone
from support.views.changelogs import HOUR_MS, Sold, Writing, now_ms, until
from support.views.generation_player import Next


class Candidate(Next):
    """Its milestones stand on the candidates topic, and behind those of `before` once it has taken over."""

    def __init__(
        self, before: Writing, partitions: int = 4, number: int | None = None, back_to: Milestone | None = None
    ) -> None:
        """`number`: of its generation, where another one was claimed before. `back_to`: a rollback's milestone."""
        assert before.last is not None
        begun = back_to or before.last
        super().__init__(before, begun.sequence, partitions, back_to is not None, number)
        self._before = before
        self._promoted = False
        self._claims = TransactionalWriter(self.cluster, topics.claims_id(self.job.name))
        self._claims.initialise()
        parent, back = protocol_records.encode(begun), back_to.sequence if back_to else 0
        self.tell(Claim(self.job.name, self.generation, parent, partitions, back, "a test", now_ms()))

    def tell(self, record: Candidacy) -> None:
        self._claims.write(topics.candidates(self.job.name), [protocol_records.encode(record)])

    def begin(self, rows: Iterable[Sold] = ()) -> Milestone:
        """The first epoch: the seeds, and over them these rows."""
        first = {**self.seeds, **{(one.shop, one.hour * HOUR_MS): one.pieces for one in rows}}
        return self.epoch(Sold(shop, start // HOUR_MS, pieces) for (shop, start), pieces in first.items())

    def publish(self, milestone: Milestone) -> Milestone:
        if self._promoted:
            return super().publish(milestone)
        self.tell(milestone)
        self.last = milestone
        return milestone

    def take_over(self, **changes: Any) -> Milestone:
        """Its newest milestone again, behind that of the generation before."""
        behind, self._promoted = self._before.last, True
        assert self.last is not None
        assert behind is not None
        told = {"sequence": behind.sequence + 1, "parent_hash": protocol_records.hash_of(behind), **changes}
        told["rewinds_to"] = self._rewinds_to
        return self.publish(replace(self.last, **told))

    def _truncated(self, partition: int, end: int) -> bool:
        """The broker that leads a partition may not have heard of the new policy yet."""
        try:
            truncate(self, partition, end)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.POLICY_VIOLATION:
                raise
            return False
        return True

    def forget(self) -> None:
        """Delete every record below the last milestone's cut: nobody can read them again."""
        client = AdminClient(self.cluster.librdkafka())
        policy = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[policy])
        for asked in client.incremental_alter_configs([topic]).values():
            asked.result(20)
        for partition, end in self.ends().items():
            until(lambda partition=partition, end=end: self._truncated(partition, end), "the policy to be known")
