"""How far the reading of one partition has come, and for how long nothing has been answered of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf

from cutwater.adapters.fetch import record_batches
from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.core.protocol.leader_epochs import joined
from cutwater.core.protocol.log_evidence import UNKNOWN

PIECE = 2_000
"""Offsets of a partition that are made records at a time, and what the batch has besides."""


@dataclass
class Way:
    """One partition's. Each has clocks of its own: what others are answered says nothing about it."""

    position: int
    epoch: int = UNKNOWN
    """Of the leader that wrote the last batch below the position, as far as one has come."""
    paused: bool = False
    chunks: deque[Chunk] = field(default_factory=deque)
    size: int = 0
    trouble: str = ""
    """Why its broker could not be asked the last time; empty since it could."""
    _silent_since_s: float | None = None
    _unknown_since_s: float | None = None

    def put(self, one: Chunk) -> None:
        self.position = one.following
        self.epoch = one.leaders[-1].epoch if one.leaders else self.epoch
        if one.batches or not self.chunks:
            self.chunks.append(one)
            self.size += one.size
        else:  # one answer after the other may hold nothing: the queue must not grow by them
            last = self.chunks[-1]
            leaders = joined(last.leaders, one.leaders)
            self.chunks[-1] = last._replace(following=one.following, end=one.end, leaders=leaders)

    def take(self, bytes_max: float = inf) -> Chunk:
        one, rest = record_batches.split(self.chunks.popleft(), PIECE, bytes_max)
        if rest is not None:
            self.chunks.appendleft(rest)
        self.size -= one.size
        return one

    def answered(self) -> None:
        """Its leader has said what there is, be it nothing."""
        self.trouble, self._silent_since_s, self._unknown_since_s = "", None, None

    def unanswered(self, why: str, now_s: float) -> None:
        """Its leader could not be asked, so nobody has said that there is no such partition."""
        self.trouble, self._unknown_since_s = why, None
        self._silent(now_s)

    def unknown(self, now_s: float) -> bool:
        """It has no leader, or who was asked is not. True once in TIMEOUT_S: so long asking again may help."""
        self._silent(now_s)
        if self._unknown_since_s is None:
            self._unknown_since_s = now_s
        if now_s - self._unknown_since_s <= TIMEOUT_S:
            return False
        self._unknown_since_s = None
        return True

    def lost(self, now_s: float) -> bool:
        """It is wanted, and nothing was answered for so long that another client may help, whatever the reason."""
        since_s = self._silent_since_s
        return not self.paused and since_s is not None and now_s - since_s > TIMEOUT_S

    def _silent(self, now_s: float) -> None:
        if self._silent_since_s is None:
            self._silent_since_s = now_s
