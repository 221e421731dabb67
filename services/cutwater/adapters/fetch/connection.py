"""aiokafka's client for readers: it never causes creation of a topic, and is replaceable.

`_metadata_update` is not a public interface: requirements.lock pins it, and
tests/broker/adapters/fetch/test_connection.py checks what is needed here.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaError as ClientError
from aiokafka.protocol.metadata import MetadataRequest

from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.core.errors import CutwaterError

PAUSE_S = 0.1
"""Pause before a request is retried."""
CLOSE_S = 10.0


class ReadingClient(AIOKafkaClient):  # type: ignore[misc]
    """aiokafka's client without auto-creation of topics (Kafka's default): a deleted topic stays deleted."""

    async def _metadata_update(self, cluster: ClusterMetadata, topics: Collection[str]) -> bool:
        """Override aiokafka's request, which would create the topic. Return False if no broker answers."""
        question = MetadataRequest(list(topics), allow_auto_topic_creation=False)
        nodes = [one.nodeId for one in self.cluster.brokers()]
        random.shuffle(nodes)
        for node in nodes or ["bootstrap"]:  # the id of the first connection while no broker is known
            try:
                answer = await self.send(node, question)
            except (ClientError, OSError):
                continue
            if answer.brokers:  # a broker that just restarted may answer with none
                cluster.update_metadata(answer)
                return True
        return False


class Clients:
    """The successive clients of a reader.

    A client uses the broker addresses and the certificate that it knows. If a broker moves or no longer accepts
    the certificate, only a new client gets an answer.
    """

    def __init__(
        self, settings: Callable[[], Mapping[str, Any]], answer_s: float, closed: Callable[[], bool]
    ) -> None:
        """`settings`: returns aiokafka's arguments, and may raise. `closed`: returns whether the reader is."""
        self._ask_settings, self._settings = settings, settings()
        self._answer_s, self._closed = answer_s, closed
        self.trouble = ""
        """The reason why the last attempt reached no broker."""

    async def first(self) -> ReadingClient | None:
        """Return a client that a broker has answered; None if the reader is closed before."""
        while not self._closed():
            options = {"client_id": "cutwater", "request_timeout_ms": int(1000 * self._answer_s)}
            client, answered = ReadingClient(**self._settings, **options), False
            try:
                answered = await self._bootstrap(client)
            finally:  # also if the task is cancelled
                if not answered:
                    await close(client)
            if answered:
                return client
            self._renew_settings()
        return None

    async def another(self, wanted: Callable[[], bool]) -> ReadingClient | None:
        """Return a new client with the settings of that time, once `wanted` is true.

        The previous client gets at least the time of one slow answer first: a change of the client loses the
        answers in flight.
        """
        began_s, least_s = time.monotonic(), max(TIMEOUT_S, self._answer_s)
        while not self._closed() and not (time.monotonic() - began_s > least_s and wanted()):
            await asyncio.sleep(PAUSE_S)
        self._renew_settings()
        return await self.first()

    def _renew_settings(self) -> None:
        with suppress(CutwaterError):  # files are being replaced: keep the old settings until the next attempt
            self._settings = self._ask_settings()

    async def _bootstrap(self, client: ReadingClient) -> bool:
        # After TIMEOUT_S without an answer the settings may have changed.
        began_s = time.monotonic()
        while not self._closed() and time.monotonic() - began_s <= TIMEOUT_S:
            try:
                await client.bootstrap()
            except (ClientError, OSError) as error:
                self.trouble = f"no connection: {error!r}"
                await asyncio.sleep(PAUSE_S)
            else:
                self.trouble = ""
                return True
        return False


async def close(client: ReadingClient) -> None:
    """Close a client within a time limit: a dead connection must not delay the next client."""
    await asyncio.wait([asyncio.create_task(client.close())], timeout=CLOSE_S)
