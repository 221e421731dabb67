"""Bulk reads of one topic: a thread prefetches batches, which become records when the reader takes them.

confluent-kafka creates an object for each message, at about 1.5 µs; this takes a sixth of it. It uses aiokafka's
client, whose parts are not public interfaces: see `record_batches`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import inf
from types import MappingProxyType
from typing import Any

from aiokafka.errors import KafkaError as ClientError
from aiokafka.errors import for_code
from aiokafka.structs import TopicPartition

from cutwater.adapters.fetch.connection import CLOSE_S, PAUSE_S, Clients, ReadingClient, close
from cutwater.adapters.fetch.partition_cursor import PartitionCursor
from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.fetch.requests import QUEUED_BYTES, Requests
from cutwater.core.errors import CutwaterError, UsageError
from cutwater.core.protocol.log_evidence import UNKNOWN

ANSWER_S = 40.0
"""Time-out for a connection and for an answer, which may have QUEUED_BYTES over a slow line between regions."""

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it logs each retry; final errors are raised here


class Fetcher:
    """Reads committed records of a topic's partitions from given offsets on, in log order."""

    def __init__(
        self,
        client: Callable[[], Mapping[str, Any]],
        topic: str,
        topic_id: str = "",
        changed: threading.Condition | None = None,
        answer_s: float = ANSWER_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`client`: returns the keyword arguments of aiokafka's client; called for each new client.

        `topic_id`: read only the topic with this id. `changed`: notified when something arrives; several fetchers
        may share one. `answer_s`: the time-out of an answer. `clock_s`: the clock of `came_s`.
        """
        self._topic, self._requests = topic, Requests(topic, topic_id)
        self._changed = changed or threading.Condition()
        self._ways: dict[int, PartitionCursor] = {}
        self._failure: BaseException | None = None
        self._closed = False
        self._clients = Clients(client, answer_s, lambda: self._closed)
        self._clock_s = clock_s
        self.came_s: float | None = None
        """Time when the newest records arrived, taken or not; None before the first."""
        self._turn = self._given = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudge = asyncio.Event()

    def assign(self, firsts: Mapping[int, int], epochs: Mapping[int, int] = MappingProxyType({})) -> None:
        """Read these partitions from these offsets on; everything fetched before is dropped.

        `epochs`: the leader epochs of the records before the offsets, if they and the topic id are known. If the
        log has lost such records, `take` raises.
        """
        with self._changed:
            self._ways = {one: PartitionCursor(first, epochs.get(one, UNKNOWN)) for one, first in firsts.items()}
            self._failure = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name=f"fetch {self._topic}", daemon=True)
            self._thread.start()
        self._wake()

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop fetching and returning records of these partitions until the next `assign`."""
        with self._changed:
            for partition in partitions:
                self._ways[partition].paused = True

    def take(self, timeout_s: float, bytes_max: float = inf) -> dict[int, Chunk]:
        """Return fetched batches by partition, in log order; wait up to `timeout_s` for the first.

        `bytes_max`: the approximate size as stored; it may be exceeded by one batch.

        Raises ProtocolError if an offset is no longer kept or records before it are lost; UsageError if reading is
        denied; UnavailableError if the topic is gone or an answer is damaged. After an error no records are lost:
        the next call returns what has arrived, and the failed request is repeated. Unreachable brokers raise
        nothing: reading continues when they are back.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.has_result, timeout_s)
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            taken = self._take_chunks(bytes_max)
        if taken:
            self._wake()
        return taken

    def _take_chunks(self, bytes_max: float) -> dict[int, Chunk]:
        # Another partition is first each time, so that a small `bytes_max` starves none.
        ready, taken = self._ready(), dict[int, Chunk]()
        self._given += 1
        at = self._given % len(ready) if ready else 0
        for partition in ready[at:] + ready[:at]:
            if bytes_max > 0:
                taken[partition] = self._ways[partition].take(bytes_max)
                bytes_max -= taken[partition].size
        return taken

    @property
    def has_result(self) -> bool:
        """True if something has arrived or failed. The caller must hold the condition."""
        return self.has_failed or bool(self._ready())

    @property
    def has_failed(self) -> bool:
        """True if something has failed; the next `take` raises it. The caller must hold the condition."""
        return self._failure is not None

    @property
    def trouble(self) -> str:
        """The reason why the last request reached no broker; empty after a success."""
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
        if self._loop is not None:
            with suppress(RuntimeError):  # the thread has ended: nobody is to be woken
                self._loop.call_soon_threadsafe(self._nudge.set)

    # From here on: in the thread.

    def _live(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # else the reader would wait forever
            self._fail(error)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        client = await self._clients.first()
        while client is not None:
            # Until the next client is ready, this one continues: it may get answers for some partitions.
            following = asyncio.create_task(self._clients.another(self._has_stalled))
            try:
                await self._fetch_all(client, following)
            finally:
                await close(client)
            if not following.done():  # closed: the next connection may take long, and is not needed
                return
            client = await following

    def _has_stalled(self) -> bool:
        now_s = time.monotonic()
        return any(way.is_stalled(now_s) for way in self._ways.values())

    async def _fetch_all(self, client: ReadingClient, following: asyncio.Task[Any]) -> None:
        """Keep one request per broker in flight, for all partitions with room; until the next client is ready."""
        client.set_topics([self._topic])
        under_way: dict[int, asyncio.Task[None]] = {}
        nudged = asyncio.create_task(self._wait_for_wakeup())
        while not self._closed and not following.done():
            for node, asked in self._partitions_to_read(client, under_way.keys()).items():
                under_way[node] = asyncio.create_task(self._fetch(client, node, asked))
            waits = [*under_way.values(), nudged]
            await asyncio.wait(waits, timeout=PAUSE_S, return_when=asyncio.FIRST_COMPLETED)
            for ended in [task for task in under_way.values() if task.done()]:
                ended.result()
            under_way = {node: task for node, task in under_way.items() if not task.done()}
            if nudged.done():
                self._nudge.clear()
                nudged = asyncio.create_task(self._wait_for_wakeup())
        left = [*under_way.values(), nudged]
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CLOSE_S)

    def _partitions_to_read(
        self, client: ReadingClient, busy: Iterable[int]
    ) -> dict[int, dict[int, PartitionCursor]]:
        wanted: dict[int, dict[int, PartitionCursor]] = {}
        with self._changed:
            for partition in self._in_turn():
                way = self._ways[partition]
                if way.paused or way.size >= QUEUED_BYTES // len(self._ways):
                    continue
                leader = client.cluster.leader_for_partition(TopicPartition(self._topic, partition))
                if leader is None or leader < 0:
                    client.force_metadata_update()
                    if way.mark_unknown(time.monotonic()):
                        self._fail(self._requests.unknown(partition, "no broker leads it"))
                elif leader not in busy:
                    wanted.setdefault(leader, {})[partition] = way
        return wanted

    def _in_turn(self) -> list[int]:
        # Each partition is first in turn: a broker returns a batch above the size limit only for the first one.
        partitions = list(self._ways)
        self._turn += 1
        at = self._turn % len(partitions) if partitions else 0
        return partitions[at:] + partitions[:at]

    async def _fetch(self, client: ReadingClient, node: int, ways: Mapping[int, PartitionCursor]) -> None:
        asked = {partition: way.position for partition, way in ways.items()}
        epochs = {partition: way.epoch for partition, way in ways.items()}
        try:
            answer = await client.send(node, self._requests.build(asked, epochs))
            if code := getattr(answer, "error_code", 0):  # of the whole answer, since version 7
                raise for_code(code)
        except UsageError as error:
            self._fail(error)
            await asyncio.sleep(PAUSE_S)
            return
        except (ClientError, OSError) as error:
            for way in ways.values():
                way.mark_unanswered(f"broker {node} does not answer: {error!r}", time.monotonic())
            client.force_metadata_update()
            await asyncio.sleep(PAUSE_S)
            return
        told = [one for _, partitions in answer.topics for one in partitions]
        if not all([self._process_answer(client, one, ways[one[0]], asked[one[0]]) for one in told]):
            await asyncio.sleep(PAUSE_S)  # one pause before the retry, however many partitions have failed

    def _process_answer(
        self, client: ReadingClient, told: tuple[Any, ...], way: PartitionCursor, asked: int
    ) -> bool:
        """Process a broker's answer for one partition; return False if it is an error."""
        try:
            one = self._requests.parse_answer(told, asked, way, time.monotonic())
        except CutwaterError as error:
            self._fail(error)
            return False
        if one is None:
            client.force_metadata_update()
            return False
        self._put(told[0], way, one)
        return True

    def _put(self, partition: int, way: PartitionCursor, one: Chunk) -> None:
        with self._changed:
            way.mark_answered()
            self._clients.trouble = ""
            # Dropped if the partition was reassigned meanwhile or requested from two leaders.
            if self._ways.get(partition) is way and way.position == one.first:
                way.put(one)
                if one.batches:
                    self.came_s = self._clock_s()
                self._changed.notify_all()

    async def _wait_for_wakeup(self) -> None:
        await self._nudge.wait()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()
