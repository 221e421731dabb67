"""Read position of one partition, and the time since its last answer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf

from cutwater.adapters.fetch import record_batches
from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.core.protocol.leader_epochs import join_leaders
from cutwater.core.protocol.log_evidence import UNKNOWN

PIECE = 2_000
"""Offsets of a partition that become records at once; the rest of the batch is included."""


@dataclass
class PartitionCursor:
    """Position, queue and clocks of one partition. Answers for other partitions do not reset its clocks."""

    position: int
    epoch: int = UNKNOWN
    """Leader epoch of the last batch below the position, if known."""
    paused: bool = False
    chunks: deque[Chunk] = field(default_factory=deque)
    size: int = 0
    trouble: str = ""
    """The reason why the last request did not reach its broker; empty after a success."""
    _silent_since_s: float | None = None
    _unknown_since_s: float | None = None

    def put(self, one: Chunk) -> None:
        self.position = one.following
        self.epoch = one.leaders[-1].epoch if one.leaders else self.epoch
        if one.batches or not self.chunks:
            self.chunks.append(one)
            self.size += one.size
        else:  # many answers may be empty: the queue must not grow by them
            last = self.chunks[-1]
            leaders = join_leaders(last.leaders, one.leaders)
            self.chunks[-1] = last._replace(following=one.following, end=one.end, leaders=leaders)

    def take(self, bytes_max: float = inf) -> Chunk:
        one, rest = record_batches.split(self.chunks.popleft(), PIECE, bytes_max)
        if rest is not None:
            self.chunks.appendleft(rest)
        self.size -= one.size
        return one

    def mark_answered(self) -> None:
        """Reset the clocks after an answer of the leader, even an empty one."""
        self.trouble, self._silent_since_s, self._unknown_since_s = "", None, None

    def mark_unanswered(self, why: str, now_s: float) -> None:
        """Note that the leader did not answer, which says nothing about the partition's existence."""
        self.trouble, self._unknown_since_s = why, None
        self._silent(now_s)

    def mark_unknown(self, now_s: float) -> bool:
        """Note that no leader is known; return True once per TIMEOUT_S, as retries within it may succeed."""
        self._silent(now_s)
        if self._unknown_since_s is None:
            self._unknown_since_s = now_s
        if now_s - self._unknown_since_s <= TIMEOUT_S:
            return False
        self._unknown_since_s = None
        return True

    def is_stalled(self, now_s: float) -> bool:
        """Return whether it is needed, but without an answer for TIMEOUT_S: a new client may help."""
        since_s = self._silent_since_s
        return not self.paused and since_s is not None and now_s - since_s > TIMEOUT_S

    def _silent(self, now_s: float) -> None:
        if self._silent_since_s is None:
            self._silent_since_s = now_s
