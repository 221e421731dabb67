"""Bulk reads of one topic: batches come ahead of the reader, in a thread, and become records when it asks.

confluent-kafka makes an object of each message, at about 1.5 µs; this takes a sixth. It asks brokers through
aiokafka's client, which is no public interface either: see `record_batches`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from math import inf
from types import MappingProxyType
from typing import Any

from aiokafka.errors import KafkaError as ClientError
from aiokafka.errors import for_code
from aiokafka.structs import TopicPartition

from cutwater.adapters.fetch.connection import CLOSE_S, PAUSE_S, Clients, ReadingClient, close
from cutwater.adapters.fetch.partition_cursor import Way
from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.fetch.requests import QUEUED_BYTES, Requests
from cutwater.core.errors import CutwaterError, UsageError
from cutwater.core.protocol.log_evidence import UNKNOWN

ANSWER_S = 40.0
"""For a connection, and for an answer: one may be of QUEUED_BYTES, over a thin line between two regions."""

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # each of its retries; what matters is an error of ours


class Fetcher:
    """Reads partitions of a topic from given offsets on: committed records, in log order."""

    def __init__(
        self,
        client: Callable[[], Mapping[str, Any]],
        topic: str,
        topic_id: str = "",
        changed: threading.Condition | None = None,
        answer_s: float = ANSWER_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`client`: gives the keyword arguments of aiokafka's client, anew for each that is made.

        `topic_id`: nothing comes of another topic of that name. `changed`: told when something has come; several
        may share one, to be waited for together. `answer_s`: how long a broker may take for one. `clock_s`: of
        `came_s`.
        """
        self._topic, self._requests = topic, Requests(topic, topic_id)
        self._changed = changed or threading.Condition()
        self._ways: dict[int, Way] = {}
        self._failure: BaseException | None = None
        self._closed = False
        self._clients = Clients(client, answer_s, lambda: self._closed)
        self._clock_s = clock_s
        self.came_s: float | None = None
        """When the newest records came, whether they were handed out or not; None before the first."""
        self._turn = self._given = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudge = asyncio.Event()

    def assign(self, firsts: Mapping[int, int], epochs: Mapping[int, int] = MappingProxyType({})) -> None:
        """Read these partitions from these offsets on; what came of others, or before, is forgotten.

        `epochs`: of the leader that wrote what lies below the offset, where that is known and the topic's identity
        is given. A log that has lost some of it since is told by `take`.
        """
        with self._changed:
            self._ways = {one: Way(first, epochs.get(one, UNKNOWN)) for one, first in firsts.items()}
            self._failure = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name=f"fetch {self._topic}", daemon=True)
            self._thread.start()
        self._wake()

    def pause(self, partitions: Iterable[int]) -> None:
        """Nothing is fetched or handed out of these any more, until the next `assign`."""
        with self._changed:
            for partition in partitions:
                self._ways[partition].paused = True

    def take(self, timeout_s: float, bytes_max: float = inf) -> dict[int, Chunk]:
        """What has come, by partition, each from where the one before ended; waits up to so long for the first.

        `bytes_max`: as stored, about: a batch may come on top.

        Raises ProtocolError where an offset is no longer kept, or what was read below it is lost; UsageError where
        we may not read; UnavailableError where the topic is gone, or what came is damaged. Nothing is lost by it:
        the next call hands out what has come, and what failed is asked for again, from where it stood. Brokers
        that are away raise nothing: it goes on when they are back.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.told, timeout_s)
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            taken = self._taken(bytes_max)
        if taken:
            self._wake()
        return taken

    def _taken(self, bytes_max: float) -> dict[int, Chunk]:
        """A piece of each, as far as there is room; another one first each time, so that each gets its turn."""
        ready, taken = self._ready(), dict[int, Chunk]()
        self._given += 1
        at = self._given % len(ready) if ready else 0
        for partition in ready[at:] + ready[:at]:
            if bytes_max > 0:
                taken[partition] = self._ways[partition].take(bytes_max)
                bytes_max -= taken[partition].size
        return taken

    @property
    def told(self) -> bool:
        """Has something come, or failed? To be asked with the condition held."""
        return self.failed or bool(self._ready())

    @property
    def failed(self) -> bool:
        """Has something failed? The next `take` raises it. To be asked with the condition held."""
        return self._failure is not None

    @property
    def trouble(self) -> str:
        """Why brokers could not be asked the last time; empty since they could."""
        ways = self._ways.values()
        return self._clients.trouble or next((one.trouble for one in ways if one.trouble and not one.paused), "")

    def close(self) -> None:
        self._closed = True
        self._wake()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _ready(self) -> list[int]:
        return [partition for partition, way in self._ways.items() if way.chunks and not way.paused]

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._nudge.set)

    # From here on: in the thread.

    def _live(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # the reader must hear of it: it would wait for ever
            self._fail(error)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        client = await self._clients.first()
        while client is not None:
            # Until there is another, this one goes on: of some partitions it may get answers.
            following = asyncio.create_task(self._clients.another(self._lost))
            try:
                await self._fetch_all(client, following)
            finally:
                await close(client)
            if not following.done():  # closed: its connection may take long, and nobody needs it
                return
            client = await following

    def _lost(self) -> bool:
        now_s = time.monotonic()
        return any(way.lost(now_s) for way in self._ways.values())

    async def _fetch_all(self, client: ReadingClient, following: asyncio.Task[Any]) -> None:
        """One request to each broker at a time, for all partitions that want more; until the following client."""
        client.set_topics([self._topic])
        under_way: dict[int, asyncio.Task[None]] = {}
        nudged = asyncio.create_task(self._nudged())
        while not self._closed and not following.done():
            for node, asked in self._wanted(client, under_way.keys()).items():
                under_way[node] = asyncio.create_task(self._fetch(client, node, asked))
            waits = [*under_way.values(), nudged]
            await asyncio.wait(waits, timeout=PAUSE_S, return_when=asyncio.FIRST_COMPLETED)
            for ended in [task for task in under_way.values() if task.done()]:
                ended.result()
            under_way = {node: task for node, task in under_way.items() if not task.done()}
            if nudged.done():
                self._nudge.clear()
                nudged = asyncio.create_task(self._nudged())
        left = [*under_way.values(), nudged]
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CLOSE_S)

    def _wanted(self, client: ReadingClient, busy: Iterable[int]) -> dict[int, dict[int, Way]]:
        """By leader: the partitions to ask for."""
        wanted: dict[int, dict[int, Way]] = {}
        with self._changed:
            for partition in self._in_turn():
                way = self._ways[partition]
                if way.paused or way.size >= QUEUED_BYTES // len(self._ways):
                    continue
                leader = client.cluster.leader_for_partition(TopicPartition(self._topic, partition))
                if leader is None or leader < 0:
                    client.force_metadata_update()
                    if way.unknown(time.monotonic()):
                        self._fail(self._requests.unknown(partition, "no broker leads it"))
                elif leader not in busy:
                    wanted.setdefault(leader, {})[partition] = way
        return wanted

    def _in_turn(self) -> list[int]:
        """Each is the first of a request once: a batch that is larger than what was asked for comes there only."""
        partitions = list(self._ways)
        self._turn += 1
        at = self._turn % len(partitions) if partitions else 0
        return partitions[at:] + partitions[:at]

    async def _fetch(self, client: ReadingClient, node: int, ways: Mapping[int, Way]) -> None:
        asked = {partition: way.position for partition, way in ways.items()}
        epochs = {partition: way.epoch for partition, way in ways.items()}
        try:
            answer = await client.send(node, self._requests.made(asked, epochs))
            if code := getattr(answer, "error_code", 0):  # of the whole answer, since version 7
                raise for_code(code)
        except UsageError as error:
            self._fail(error)
            await asyncio.sleep(PAUSE_S)
            return
        except (ClientError, OSError) as error:
            for way in ways.values():
                way.unanswered(f"broker {node} does not answer: {error!r}", time.monotonic())
            client.force_metadata_update()
            await asyncio.sleep(PAUSE_S)
            return
        told = [one for _, partitions in answer.topics for one in partitions]
        if not all([self._took(client, one, ways[one[0]], asked[one[0]]) for one in told]):
            await asyncio.sleep(PAUSE_S)  # once, however many have failed: the others are asked again after it

    def _took(self, client: ReadingClient, told: tuple[Any, ...], way: Way, asked: int) -> bool:
        """Take in what a broker says of one partition; False where that is no answer."""
        try:
            one = self._requests.told(told, asked, way, time.monotonic())
        except CutwaterError as error:
            self._fail(error)
            return False
        if one is None:
            client.force_metadata_update()
            return False
        self._put(told[0], way, one)
        return True

    def _put(self, partition: int, way: Way, one: Chunk) -> None:
        with self._changed:
            way.answered()
            self._clients.trouble = ""
            # Assigned anew meanwhile, or asked of two leaders: nobody waits for this any more.
            if self._ways.get(partition) is way and way.position == one.first:
                way.put(one)
                if one.batches:
                    self.came_s = self._clock_s()
                self._changed.notify_all()

    async def _nudged(self) -> None:
        await self._nudge.wait()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()
