"""The link to another region, and the bulk reader of one topic over it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from cutwater.adapters.fetch.record_batches import Batch, Chunk
from cutwater.adapters.fetch.requests import lost_tail
from cutwater.core.errors import ProtocolError, UnavailableError
from cutwater.core.protocol.log_evidence import UNKNOWN
from simulation.log import Headers, Log, Outcome, Record
from simulation.processes import Process

AHEAD_MAX = 3
"""Chunks of a partition that are kept ahead of the reader."""


@dataclass
class Link:
    """From one region to another."""

    cut: bool = False
    slow: bool = False
    """What was read arrives much later, and now and then damaged."""
    lags: str = ""
    """Of this topic nothing comes, and of the others all."""
    damaged: int = 0
    """So many answers were."""


WIRE = Link()
"""Within a region: never away."""


class Fetched(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Parsed:
    """Stands for a batch of aiokafka's parser."""

    def __init__(self, records: list[Record], following: int) -> None:
        self._records = records
        self.base_offset = records[0].offset
        self.next_offset = following

    def __iter__(self) -> Iterator[Fetched]:
        return (Fetched(one.offset, one.time_ms, one.key, one.value, one.headers or []) for one in self._records)


class _Way:
    def __init__(self, position: int, epoch: int) -> None:
        self.position, self.epoch = position, epoch
        self.ahead: deque[Chunk] = deque(maxlen=AHEAD_MAX)


class SimFetcher:
    """`cutwater.adapters.fetch.fetcher.Fetcher`: committed records in log order, read ahead of whoever takes
    them."""

    trouble = ""
    """Nothing is decided by it."""
    came_s = None
    """Luck decides whether it is taken."""

    def __init__(self, log: Log, process: Process, link: Link, topic: str, topic_id: str) -> None:
        self._log, self._process, self._link = log, process, link
        self._by_name = not topic_id
        self._topic, self._topic_id = topic, topic_id or log.identities.get(topic, "")
        self._ways: dict[int, _Way] = {}

    def assign(self, firsts: Mapping[int, int], epochs: Mapping[int, int] = MappingProxyType({})) -> None:
        self._ways = {one: _Way(first, epochs.get(one, UNKNOWN)) for one, first in firsts.items()}

    def pause(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._ways.pop(partition, None)

    def close(self) -> None:
        self._ways = {}

    @property
    def has_result(self) -> bool:
        """Luck decides that when it is taken."""
        return False

    @property
    def has_failed(self) -> bool:
        """What fails is raised when it is taken."""
        return False

    def take(self, timeout_s: float, _bytes_max: float = 0.0) -> dict[int, Chunk]:
        self._process.pause()
        if self._by_name and self._topic not in self._log.topics:
            raise UnavailableError(f"{self._topic}: there is no such topic")
        lucks = {partition: self._process.luck() for partition in self._ways}
        for partition, luck in lucks.items():
            way = self._ways[partition]
            if self._answered and self._link.slow and luck >> 27 == 0:
                self._link.damaged += 1
                raise UnavailableError(f"{self._topic}/{partition}: the checksum of a batch is wrong")
            if self._answered and len(way.ahead) < AHEAD_MAX and luck % 4:
                way.ahead.append(self._fetch(partition, way, 1 + (luck >> 8) % 12))
        # Handed out once nothing can fail any more: what has come is not lost by an error.
        ready = [one for one, luck in lucks.items() if (luck >> 16) % (12 if self._link.slow else 3) < 2]
        return {one: self._ways[one].ahead.popleft() for one in ready if self._ways[one].ahead}

    def wait_for_more(self) -> None:
        """Until there is something to take, or to tell."""
        self._process.pause(self._has_more)

    def _has_more(self) -> bool:
        logs = self._log.topics.get(self._topic)
        if logs is None or not self._answered:
            return True
        return any(
            way.ahead or way.position < logs[at].stable_end or not logs[at].first <= way.position <= logs[at].end
            for at, way in self._ways.items()
        )

    @property
    def _answered(self) -> bool:
        """Another topic of the name has another identity: nothing comes of it."""
        away = self._link.cut or self._link.lags == self._topic
        return not away and self._log.identities.get(self._topic) == self._topic_id

    def _fetch(self, partition: int, way: _Way, most: int) -> Chunk:
        """What a broker answers now: up to the last stable offset."""
        log, first = self._log.topics[self._topic][partition], way.position
        if not log.first <= first <= log.end:
            raise ProtocolError(f"{self._topic}/{partition}: offset {first} is not there")
        if way.epoch != UNKNOWN:
            leader, end = log.end_of(way.epoch)
            if leader < way.epoch or end < first:
                raise lost_tail(f"{self._topic}/{partition}", first, way.epoch, end)
        inside = [one for one in log.records if first <= one.offset < log.stable_end]
        following = inside[most - 1].offset + 1 if len(inside) > most else log.stable_end
        way.position = following = max(following, first)
        seen = [
            one
            for one in inside[:most]
            if not (one.marker or (one.transaction and one.transaction.outcome is Outcome.ABORTED))
        ]
        batches = [Batch(Parsed(seen, following), memoryview(b""))] if seen else []
        leaders = log.led(first, following)
        way.epoch = leaders[-1].epoch if leaders else way.epoch
        place = f"{self._topic}/{partition}"
        return Chunk(first, following, batches, len(seen), place, log.end, leaders)
