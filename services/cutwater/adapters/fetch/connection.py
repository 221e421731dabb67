"""aiokafka's client for who only reads: it has no topic made, and another one is made in its place.

`_metadata_update` is no public interface: requirements.lock pins it, and
tests/broker/adapters/fetch/test_connection.py holds it to what is needed here.
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
"""Between two questions, where the first had no answer."""
CLOSE_S = 10.0


class ReadingClient(AIOKafkaClient):  # type: ignore[misc]
    """Where brokers make topics that somebody asks for (Kafka's default), a deleted one stays deleted."""

    async def _metadata_update(self, cluster: ClusterMetadata, topics: Collection[str]) -> bool:
        """As aiokafka's own, which would ask so that the topic is made. False where no broker answers."""
        question = MetadataRequest(list(topics), allow_auto_topic_creation=False)
        nodes = [one.nodeId for one in self.cluster.brokers()]
        random.shuffle(nodes)
        for node in nodes or ["bootstrap"]:  # so is the first connection kept while no broker is known
            try:
                answer = await self.send(node, question)
            except (ClientError, OSError):
                continue
            if answer.brokers:  # one that is just back can answer that there are none
                cluster.update_metadata(answer)
                return True
        return False


class Clients:
    """A reader's clients, one after another.

    A client asks the brokers that it knows, where it knows them, with the certificate that it was given: of a
    broker that is elsewhere, or refuses that by now, only another client gets an answer.
    """

    def __init__(
        self, settings: Callable[[], Mapping[str, Any]], answer_s: float, closed: Callable[[], bool]
    ) -> None:
        """`settings`: keyword arguments of aiokafka's client, as they are now. `closed`: is none needed any more?

        Raises as `settings` does.
        """
        self._ask_settings, self._settings = settings, settings()
        self._answer_s, self._closed = answer_s, closed
        self.trouble = ""
        """Why nobody could be asked the last time."""

    async def first(self) -> ReadingClient | None:
        """One that some broker has answered; None where the reader is closed before."""
        while not self._closed():
            options = {"client_id": "cutwater", "request_timeout_ms": int(1000 * self._answer_s)}
            client, answered = ReadingClient(**self._settings, **options), False
            try:
                answered = await self._bootstrap(client)
            finally:  # where nobody waits for it any more, too
                if not answered:
                    await close(client)
            if answered:
                return client
            self._renew_settings()
        return None

    async def another(self, wanted: Callable[[], bool]) -> ReadingClient | None:
        """The same with the settings as they are then, once it is wanted.

        It is no better than the one before it until it has had as long, nor before an answer over a thin line may
        have come: what is under way at the change comes never.
        """
        began_s, least_s = time.monotonic(), max(TIMEOUT_S, self._answer_s)
        while not self._closed() and not (time.monotonic() - began_s > least_s and wanted()):
            await asyncio.sleep(PAUSE_S)
        self._renew_settings()
        return await self.first()

    def _renew_settings(self) -> None:
        with suppress(CutwaterError):  # files that are just being replaced: as before, until the next time
            self._settings = self._ask_settings()

    async def _bootstrap(self, client: ReadingClient) -> bool:
        """False where nobody answers for TIMEOUT_S: the settings may be others by now."""
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
    """A connection that nobody answers on must not hold up the next client."""
    await asyncio.wait([asyncio.create_task(client.close())], timeout=CLOSE_S)
