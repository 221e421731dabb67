"""One slot: writes its partitions' copies and positions in transactions that fence any other owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.writers.copy_writer import Copies, CopyingWriter
from cutwater.adapters.kafka.writers.transactional_writer import Batch
from cutwater.adapters.runtime.crash_points import reach
from cutwater.core.mirror.copy_progress import advance_position, is_worth_writing, require_alone
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.topic_copy import FetchedRecords


class Slot:
    """Owns the slot's transactional id once it is open."""

    def __init__(self, context: MirrorContext, slot: int) -> None:
        self._writer = CopyingWriter(context.own, mirror_records.slot_id(context.job, context.region, slot))
        self._place = mirror_records.positions(context.job)
        # Of its own: it answers one query at a time, and transactions wait for the answer.
        self._ends = Offsets(context.own)
        self._now_ms = context.now_ms

    def open(self) -> None:
        """Fence an older owner; its open transaction is aborted."""
        self._writer.initialise()

    def require_own(self) -> None:
        """Raise FencedError if the slot has a newer owner; other errors are ignored."""
        self._writer.require_own(self._place)

    def write(self, taken: Sequence[FetchedRecords]) -> None:
        """Write records and positions in one transaction.

        Raises FencedError; DivergenceError if another program writes there, or the records do not continue from
        the position; UnavailableError if the outcome is unknown: restart and read the positions.
        """
        now = self._now_ms()
        moves = [(one, self._next_position(one, now)) for one in taken]
        moves = [(one, new) for one, new in moves if one.records or is_worth_writing(new, self._position_of(one))]
        if not moves:
            return
        reach("copy-read")
        copies = [Copies(*one.place, one.records) for one, _ in moves if one.records]
        self._writer.copy(copies, lambda: self._proved([one for one, _ in moves], [new for _, new in moves]))
        reach("copy-written")
        for one, new in moves:
            one.followed.committed(one.partition, new, len(one.records))

    def _position_of(self, one: FetchedRecords) -> Mirrored:
        return one.followed.positions[one.partition]

    def _next_position(self, one: FetchedRecords, now_ms: int) -> Mirrored:
        followed = one.followed
        base, leader = followed.bases[one.partition], followed.leader(one.partition)
        return advance_position(self._position_of(one), one.piece, base, now_ms, followed.spared.lag_ms, leader)

    def _proved(self, taken: Sequence[FetchedRecords], positions: Sequence[Mirrored]) -> Sequence[Batch]:
        wrote = [one for one in taken if one.records]
        now = self._ends.ends_with_epochs([one.place for one in wrote])
        for one in wrote:
            expected = one.followed.bases[one.partition] + len(one.records)
            require_alone(*one.place, expected, now[one.place].end)
        told = [
            replace(new, local_epoch=now[one.place].leader_epoch) if one.records else new
            for one, new in zip(taken, positions, strict=True)
        ]
        records = [{"key": one.key, "value": protocol_records.encode(one)} for one in told]
        return [Batch(self._place, 0, records)]
