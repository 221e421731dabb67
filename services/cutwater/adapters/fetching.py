"""Bulk reads of one topic: batches come ahead of the reader, in a thread, and become records when it asks.

confluent-kafka makes an object of each message, at about 1.5 µs; this takes a sixth. It asks brokers through
aiokafka's client, which is no public interface either: see `batches`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError as ClientError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.structs import TopicPartition
from confluent_kafka import KafkaError

from cutwater.adapters import batches
from cutwater.adapters.batches import Chunk
from cutwater.adapters.fetch_by_id import FetchById
from cutwater.adapters.kafka import TIMEOUT_S, raise_read_error
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError

QUEUED_BYTES = 16 << 20
"""Kept ahead of the reader, of all partitions together and as stored; besides, one answer of each broker."""
PARTITION_BYTES = 1 << 20
"""Asked of a partition at a time; a batch that is larger comes all the same."""
PIECE = 2_000
"""Offsets of a partition that are made records at a time, and what the batch has besides."""
_WAIT_MS = 50
"""How long a broker may wait for something to answer with. A new assignment waits for the answer, too."""
_READ_COMMITTED = 1
_PAUSE_S = 0.1
_CLOSE_S = 10.0
_PASSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
    }
)
"""Whoever asks again, and elsewhere, gets an answer."""

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # each of its retries; what matters is an error of ours


@dataclass
class _Way:
    """How far the reading of one partition has come."""

    position: int
    paused: bool = False
    chunks: deque[Chunk] = field(default_factory=deque)
    size: int = 0

    def put(self, one: Chunk) -> None:
        self.position = one.following
        if one.batches or not self.chunks:
            self.chunks.append(one)
            self.size += one.size
        else:  # one answer after the other may hold nothing: the queue must not grow by them
            self.chunks[-1] = self.chunks[-1]._replace(following=one.following, end=one.end)

    def take(self) -> Chunk:
        one, rest = batches.split(self.chunks.popleft(), PIECE)
        if rest is not None:
            self.chunks.appendleft(rest)
        self.size -= one.size
        return one


class Fetcher:
    """Reads partitions of a topic from given offsets on: committed records, in log order."""

    def __init__(
        self,
        client: Mapping[str, Any],
        topic: str,
        topic_id: str = "",
        changed: threading.Condition | None = None,
    ) -> None:
        """`client`: keyword arguments of aiokafka's client.

        `topic_id`: nothing comes of another topic of that name. `changed`: told when something has come; several
        may share one, to be waited for together.
        """
        self._client = dict(client)
        self._topic, self._topic_id = topic, topic_id
        self._changed = changed or threading.Condition()
        self._ways: dict[int, _Way] = {}
        self._failure: BaseException | None = None
        self._unknown_since: float | None = None
        self._closed = False
        self.trouble = ""
        """Why brokers could not be asked the last time; empty since they could."""
        self._turn = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudge = asyncio.Event()

    def assign(self, firsts: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on; what came of others, or before, is forgotten."""
        with self._changed:
            self._ways = {partition: _Way(first) for partition, first in firsts.items()}
            self._failure = self._unknown_since = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name=f"fetch {self._topic}", daemon=True)
            self._thread.start()
        self._wake()

    def pause(self, partitions: Iterable[int]) -> None:
        """Nothing is fetched or handed out of these any more, until the next `assign`."""
        with self._changed:
            for partition in partitions:
                self._ways[partition].paused = True

    def take(self, timeout_s: float) -> dict[int, Chunk]:
        """What has come, by partition, each from where the one before ended; waits up to so long for the first.

        Raises ProtocolError where an offset is no longer kept; UsageError where we may not read; UnavailableError
        where the topic is gone, or what came is damaged. Nothing is lost by it: the next call hands out what has
        come, and what failed is asked for again, from where it stood. Brokers that are away raise nothing: it goes
        on when they are back.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.told, timeout_s)
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            taken = {partition: self._ways[partition].take() for partition in self._ready()}
        if taken:
            self._wake()
        return taken

    @property
    def told(self) -> bool:
        """Has something come, or failed? To be asked with the condition held."""
        return self._failure is not None or bool(self._ready())

    def close(self) -> None:
        self._closed = True
        self._wake()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

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
        client = AIOKafkaClient(**self._client, client_id="cutwater")
        try:
            while not self._closed:
                try:
                    await client.bootstrap()
                    break
                except (ClientError, OSError) as error:
                    self.trouble = f"no connection: {error!r}"
                    await self._pause()
            if not self._closed:
                await self._fetch_all(client)
        finally:
            await client.close()

    async def _fetch_all(self, client: AIOKafkaClient) -> None:
        """One request to each broker at a time, for all partitions that want more."""
        client.set_topics([self._topic])
        under_way: dict[int, asyncio.Task[None]] = {}
        nudged = asyncio.create_task(self._nudged())
        while not self._closed:
            for node, asked in self._wanted(client, under_way.keys()).items():
                under_way[node] = asyncio.create_task(self._fetch(client, node, asked))
            waits = [*under_way.values(), nudged]
            await asyncio.wait(waits, timeout=_PAUSE_S, return_when=asyncio.FIRST_COMPLETED)
            for ended in [task for task in under_way.values() if task.done()]:
                ended.result()
            under_way = {node: task for node, task in under_way.items() if not task.done()}
            if nudged.done():
                self._nudge.clear()
                nudged = asyncio.create_task(self._nudged())
        for task in [*under_way.values(), nudged]:
            task.cancel()

    def _wanted(self, client: AIOKafkaClient, busy: Iterable[int]) -> dict[int, dict[int, _Way]]:
        """By leader: the partitions to ask for."""
        wanted: dict[int, dict[int, _Way]] = {}
        with self._changed:
            for partition in self._in_turn():
                way = self._ways[partition]
                if way.paused or way.size >= QUEUED_BYTES // len(self._ways):
                    continue
                leader = client.cluster.leader_for_partition(TopicPartition(self._topic, partition))
                if leader is None or leader < 0:
                    client.force_metadata_update()
                    self._nobody_leads(partition)
                elif leader not in busy:
                    wanted.setdefault(leader, {})[partition] = way
        return wanted

    def _in_turn(self) -> list[int]:
        """Each is the first of a request once: a batch that is larger than what was asked for comes there only."""
        partitions = list(self._ways)
        self._turn += 1
        at = self._turn % len(partitions) if partitions else 0
        return partitions[at:] + partitions[:at]

    async def _fetch(self, client: AIOKafkaClient, node: int, ways: Mapping[int, _Way]) -> None:
        asked = {partition: way.position for partition, way in ways.items()}
        try:
            answer = await client.send(node, self._request(asked))
        except UsageError as error:
            self._fail(error)
            await self._pause()
            return
        except (ClientError, OSError) as error:
            self.trouble = f"broker {node} does not answer: {error!r}"
            client.force_metadata_update()
            await self._pause()
            return
        self.trouble = ""
        for _, partitions in answer.topics:
            for partition, code, high, _stable, *more, raw in partitions:
                # Since version 5 the start of the log stands before the aborted ones, since 11 a replica behind.
                aborted = next((one for one in more if isinstance(one, list)), None)
                place = f"{self._topic}/{partition}"
                try:
                    if code:
                        self._heed(client, KafkaError(code), partition)
                        await self._pause()
                    else:
                        one = batches.chunk(place, raw, asked[partition], aborted, high)
                        self._put(partition, ways[partition], one)
                except CutwaterError as error:
                    self._fail(error)
                    await self._pause()

    def _request(self, asked: Mapping[int, int]) -> FetchRequest | FetchById:
        most = min(PARTITION_BYTES, QUEUED_BYTES // len(asked))
        partitions = [(partition, first, most) for partition, first in asked.items()]
        bounds = _WAIT_MS, 1, QUEUED_BYTES, _READ_COMMITTED
        if self._topic_id:
            return FetchById(*bounds, self._topic_id, partitions)
        return FetchRequest(*bounds, [(self._topic, partitions)])

    def _put(self, partition: int, way: _Way, one: Chunk) -> None:
        with self._changed:
            self._unknown_since = None
            # Assigned anew meanwhile, or asked of two leaders: nobody waits for this any more.
            if self._ways.get(partition) is way and way.position == one.first:
                way.put(one)
                self._changed.notify_all()

    def _heed(self, client: AIOKafkaClient, error: KafkaError, partition: int) -> None:
        """Raises what asking again cannot mend, or has not for long enough."""
        if error.code() not in _PASSING:
            raise_read_error(error, self._topic, partition)
        client.force_metadata_update()
        if self._for_too_long():
            raise self._unknown(partition, error.str())

    def _nobody_leads(self, partition: int) -> None:
        if self._for_too_long():
            self._fail(self._unknown(partition, "no broker leads it"))

    def _for_too_long(self) -> bool:
        """Has no answer come for as long as asking again may help?"""
        now = time.monotonic()
        self._unknown_since = self._unknown_since or now
        if now - self._unknown_since <= TIMEOUT_S:
            return False
        self._unknown_since = None
        return True

    def _unknown(self, partition: int, why: str) -> UnavailableError:
        return UnavailableError(
            f"reading {self._topic}/{partition}: {why}, for {TIMEOUT_S:.0f} s; is it deleted, or its "
            "broker just back?"
        )

    async def _nudged(self) -> None:
        await self._nudge.wait()

    async def _pause(self) -> None:
        await asyncio.sleep(_PAUSE_S)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()
