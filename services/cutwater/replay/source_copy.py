"""The source's records between two cuts, copied to the sandbox at a bounded rate.

Keys, values, headers and times stay as they are, and so does the order within each partition. Partitions are read
one after the other: no window closes in the sandbox, so the order among them decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cutwater.adapters.events.record_copy import RecordCopy, record_bytes
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.errors import UnavailableError
from cutwater.core.past.replay_range import SourceRange
from cutwater.core.past.replayed_rows import SourceOffsets
from cutwater.core.util.rate_limit import Throttle
from cutwater.local.machine.disk_space import require_room
from cutwater.views.changelog.range_consumer import RangeConsumer

STALL_S = 60.0
PAUSE_S = 0.02
ROOM_EVERY_BYTES = 64 << 20
OWNER = "the replay's copy of the events"


@dataclass(frozen=True)
class CopyRequest:
    source: Cluster
    target: Cluster
    topic: str
    ranges: Sequence[SourceRange]
    left_out: Mapping[int, Set[int]]
    """Offsets by partition that are not copied."""
    bytes_per_s: int
    """Of keys and values; 0 for no limit."""
    folder: Path
    """A folder on the disk that the copies are on."""
    offsets: SourceOffsets | None
    """Takes the offsets of what is copied; None if nobody needs them."""


@dataclass
class Copied:
    records: dict[int, int] = field(default_factory=dict)
    """By partition."""
    bytes: int = 0
    """Of keys and values."""

    @property
    def events(self) -> int:
        return sum(self.records.values())


def copy_source(request: CopyRequest, report: Callable[[int, int], None]) -> Copied:
    """Copy the records. `report`: called with the offsets passed so far, and the bytes copied.

    Raises UnavailableError if brokers do not answer, ProtocolError if the retention overtakes the copy,
    MachineError without room on the disk.
    """
    made = _SourceCopy(request, report)
    for one in request.ranges:
        made.partition(one)
    made.finish()
    return made.copied


class _SourceCopy:
    def __init__(self, request: CopyRequest, report: Callable[[int, int], None]) -> None:
        self._request, self._report = request, report
        self.copied = Copied()
        self._target = RecordCopy(request.target, request.topic)
        self._throttle = Throttle(request.bytes_per_s)
        self._passed = 0
        self._room_at = 0

    def partition(self, wanted: SourceRange) -> None:
        """Copy the records of one partition."""
        self.copied.records[wanted.partition] = 0
        if not wanted.offsets:
            return
        with closing(RangeConsumer(self._request.source, self._request.topic)) as log:
            log.start({wanted.partition: wanted.first})
            deadline = time.monotonic() + STALL_S
            while not log.has_read_to(wanted.partition, wanted.end):
                came = log.read().get(wanted.partition, [])
                if came:
                    self._take(wanted, [one for one in came if one.offset() < wanted.end])
                    deadline = time.monotonic() + STALL_S
                elif time.monotonic() > deadline:
                    raise UnavailableError(
                        f"{self._request.topic}/{wanted.partition}: no record arrived for {STALL_S:g} s below "
                        f"{wanted.end}; check that the brokers run"
                    )
        self._passed += wanted.offsets
        self._report(self._passed, self.copied.bytes)

    def _take(self, wanted: SourceRange, came: Sequence[Any]) -> None:
        if not came:
            return
        left_out = self._request.left_out.get(wanted.partition, frozenset())
        kept = [one for one in came if one.offset() not in left_out] if left_out else came
        size = sum(map(record_bytes, came))
        if kept:
            if self._request.offsets is not None:
                self._request.offsets.add(wanted.partition, [one.offset() for one in kept])
            self._target.append(kept)
            self.copied.records[wanted.partition] += len(kept)
            self.copied.bytes += size
        self._require_room()
        self._report(self._passed + came[-1].offset() + 1 - wanted.first, self.copied.bytes)
        self._rest(size)

    def _rest(self, size: int) -> None:
        self._throttle.record_bytes(size, time.monotonic())
        while not self._throttle.free(time.monotonic()):
            time.sleep(PAUSE_S)

    def _require_room(self) -> None:
        if self.copied.bytes >= self._room_at:
            self._room_at = self.copied.bytes + ROOM_EVERY_BYTES
            require_room(self._request.folder, OWNER)

    def finish(self) -> None:
        """Check that the copy has exactly these records: their offsets are their numbers."""
        self._target.finish()
        ends = source_end(self._request.target, self._request.topic)
        for place, end in ends:
            if end != self.copied.records.get(place.partition, 0):
                raise UnavailableError(
                    f"the copy of {place.topic}/{place.partition} has {end:,} records, and "
                    f"{self.copied.records.get(place.partition, 0):,} were written: replay again"
                )
