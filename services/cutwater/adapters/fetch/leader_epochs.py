"""End offsets of the records of leaders up to a given epoch: a request that confluent-kafka does not offer.

It uses aiokafka's client with a connection of its own, which is rare: only after a leader change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka.errors import KafkaError as ClientError
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import Array, Int16, Int32, Int64, Schema, String
from aiokafka.structs import TopicPartition
from confluent_kafka import KafkaError

from cutwater.adapters.fetch.connection import PAUSE_S, Clients, ReadingClient, close
from cutwater.adapters.kafka.client import PASSING, TIMEOUT_S
from cutwater.core.errors import UnavailableError, UsageError

_NO_REPLICA = -1
_ANY_LEADER = -1
_API, _VERSION = 23, 3
"""OffsetForLeaderEpoch, of Kafka 2.4 and newer."""


class _Answer(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = _API, _VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader_epoch", Int32),
                        ("end_offset", Int64),
                    ),
                ),
            ),
        ),
    )


class _Question(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION = _API, _VERSION
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("replica_id", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32)),
                ),
            ),
        ),
    )


class _Ask:
    """A request as aiokafka's client needs it: `prepare` returns the version for a broker."""

    def __init__(self, topic: str, asked: Mapping[int, int]) -> None:
        self._topics = [(topic, [(partition, _ANY_LEADER, epoch) for partition, epoch in asked.items()])]

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> _Question:
        """Return the request. Raises UsageError if the broker is too old."""
        low, high = versions.get(_API, (0, 0))
        if not low <= _VERSION <= high:
            raise UsageError("brokers report a leader epoch's end offset since Kafka 2.4: update these brokers")
        return _Question(_NO_REPLICA, self._topics)


class LeaderEpochs:
    """Queries about one topic. `client`: returns the keyword arguments of aiokafka's client."""

    def __init__(self, client: Callable[[], Mapping[str, Any]], topic: str, patience_s: float = TIMEOUT_S) -> None:
        self._client, self._topic, self._patience_s = client, topic, patience_s

    def ends(self, epochs: Mapping[int, int]) -> dict[int, int]:
        """Return where records of leaders up to this epoch end, by partition; -1 if the present leader knows none.

        Raises UnavailableError if no leader answers within `patience_s`; UsageError if the query is denied.
        """
        return asyncio.run(self._ends(dict(epochs))) if epochs else {}

    async def _ends(self, left: dict[int, int]) -> dict[int, int]:
        clients = Clients(self._client, self._patience_s, lambda: False)
        try:
            return await asyncio.wait_for(self._ask_all(clients, left), self._patience_s)
        except TimeoutError:
            raise UnavailableError(
                f"{self._topic}: no leader reports within {self._patience_s:.0f} s where the records of earlier "
                f"leaders end, for partitions {sorted(left)}; {clients.trouble or 'check that the brokers run'}"
            ) from None

    async def _ask_all(self, clients: Clients, left: dict[int, int]) -> dict[int, int]:
        client = await clients.first()
        if client is None:  # happens only if `closed` returns True
            return {}
        try:
            client.set_topics([self._topic])
            found: dict[int, int] = {}
            while True:
                for node, asked in self._by_leader(client, left).items():
                    found |= await self._ask(client, node, asked)
                for partition in found:
                    left.pop(partition, None)
                if not left:
                    return found
                client.force_metadata_update()
                await asyncio.sleep(PAUSE_S)
        finally:
            await close(client)

    def _by_leader(self, client: ReadingClient, left: Mapping[int, int]) -> dict[int, dict[int, int]]:
        asked: dict[int, dict[int, int]] = {}
        for partition, epoch in left.items():
            leader = client.cluster.leader_for_partition(TopicPartition(self._topic, partition))
            if leader is not None and leader >= 0:
                asked.setdefault(leader, {})[partition] = epoch
        return asked

    async def _ask(self, client: ReadingClient, node: int, asked: Mapping[int, int]) -> dict[int, int]:
        """Return this broker's answers; missing ones are asked for again."""
        try:
            answer = await client.send(node, _Ask(self._topic, asked))
        except (ClientError, OSError):
            return {}
        found = {}
        for _, partitions in answer.topics:
            for code, partition, _, end in partitions:
                if not code:
                    found[partition] = end
                elif code not in PASSING:
                    error = KafkaError(code)
                    raise UsageError(
                        f"{self._topic}/{partition}: {error.str()}; this needs the right DESCRIBE on the topic"
                    )
        return found
