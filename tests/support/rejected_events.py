"""The dead letters and late events of one job, written as its driver and signaller write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from confluent_kafka import Producer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.rejected_events import dead_letters, late_pairs
from cutwater.core.driver.rejected_events import EventPosition, Letter
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone
from cutwater.operations.replay_dead_letters import Replayer
from support.protocol_samples import GENERATION as G1
from support.protocol_samples import milestone

WINDOW = {"key": "k", "window_start": 0, "window_end": 60_000}
EVENT: dict[str, Any] = {"event_key": b"k", "event_value": b"bad", "event_written_ms": 1, "event_headers": []}


class Region:
    """Topics of one job, written by hand as driver, signaller and whoever claims would."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name, self.source = cluster, name, f"{name}.events"
        self.read = self.source
        ensure_topics(cluster, [*topics.generation_topics(name, G1, 2), topics.events(self.source, 2)])
        self._lists = Producer({**cluster.librdkafka(), "enable.idempotence": True})
        self._signal = TransactionalWriter(cluster, topics.signal_id(name))
        self._signal.initialise()
        self._claims = TransactionalWriter(cluster, topics.claims_id(name))
        self._claims.initialise()
        self.stream: list[Milestone] = []

    def epoch(self, by: Generation, epoch: int, letters: dict[int, str], late: dict[int, int]) -> Milestone:
        """List events by reason, and events by the watermark that had closed their window; then the milestone."""
        who = {"job": self.name, "generation": str(by), "attempt": 1, "epoch": epoch}
        for offset, reason in letters.items():
            value = protocol_codec("dead_letter").encode({**who, **EVENT, "reason": reason, "replayed": None})
            self._produce(topics.dead_letters(self.name), "dead_letter_key", by, offset, {}, value)
        for offset, watermark_ms in late.items():
            times = {"watermark_ms": watermark_ms, "event_time_ms": 5}
            value = protocol_codec("late").encode({**who, **EVENT, **times})
            self._produce(topics.late(self.name), "late_key", by, offset, WINDOW, value)
        assert self._lists.flush(20) == 0
        told = milestone(
            epoch, job=self.name, generation=by, rejected=len(letters), late=len(late), attempt=1, sequence=1
        )
        if not self.stream or by == self.stream[-1].generation:
            return self.write(told)
        self._claims.write(topics.candidates(self.name), [protocol_records.encode(told)])
        return told

    def _produce(
        self, topic: str, key: str, by: Generation, offset: int, more: dict[str, Any], value: bytes
    ) -> None:
        place = {"generation": str(by), "topic": self.read, "partition": 1, "offset": offset, **more}
        self._lists.produce(topic, key=protocol_codec(key).encode(place), value=value)

    def write(self, told: Milestone, rewinds_to: int = 0) -> Milestone:
        """Put a milestone on the commit stream; the newest of a candidate promotes that."""
        last = self.stream[-1] if self.stream else None
        linked = (
            {"sequence": last.sequence + 1, "parent_hash": protocol_records.hash_of(last)}
            if last
            else {"sequence": 1}
        )
        made = replace(told, **linked, rewinds_to=rewinds_to)
        self._signal.write(topics.milestones(self.name), [protocol_records.encode(made)])
        self.stream.append(made)
        assert not list(find_chain_faults((one, protocol_records.encode(one)) for one in self.stream))
        return made

    def claim(self, number: int, parent: Milestone, rewinds: bool = False) -> Generation:
        generation = Generation(number, "local", protocol_records.hash_of(parent).hex()[:8])
        back = parent.sequence if rewinds else 0
        claim = Claim(self.name, generation, protocol_records.encode(parent), 2, back, "a test", 1)
        self._claims.write(topics.candidates(self.name), [protocol_records.encode(claim)])
        return generation

    def letters(self, generation: Generation | None = None) -> dict[int, tuple[int, str]]:
        """The generation's number and the reason, by the event's offset."""
        found = dead_letters(self.cluster, self.name, generation)
        assert found.problems == []
        return {one.event.offset: (one.by.generation.number, one.reason) for one in found.entries}

    def late(self, generation: Generation | None = None) -> dict[int, tuple[int, int]]:
        found = late_pairs(self.cluster, self.name, generation)
        assert found.problems == []
        return {one.event.offset: (one.by.generation.number, one.watermark_ms) for one in found.entries}

    def replay(self) -> dict[EventPosition, EventPosition]:
        replayer = Replayer(self.cluster, self.name, self.source, lambda: 1_700_000_000_000)
        gone = replayer.replay(self.unreplayed())
        replayer.close()
        return gone

    def unreplayed(self) -> list[Letter]:
        return [one for one in dead_letters(self.cluster, self.name).entries if one.replayed is None]

    def produced(self) -> list[int]:
        """Where each event on the source stood before: nobody but replays has written there."""
        consumer = make_consumer(self.cluster)
        found = [one.headers()[-1][1].decode() for one in read_range(consumer, self.source, 1, 0)]
        consumer.close()
        return sorted(int(one.rpartition("/")[2]) for one in found)
