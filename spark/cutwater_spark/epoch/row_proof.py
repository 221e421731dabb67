"""The proof of rows over Kafka: reads the changelog. `core.driver.row_proof` decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.hashing import rows_hash
from cutwater.adapters.kafka.client import headers_of, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.adapters.topics.log_evidence import LogCheck, LogState
from cutwater.core.driver.ports import LeadersChangedError, Proved
from cutwater.core.driver.row_proof import (
    ChangelogRow,
    Suspect,
    Written,
    describe,
    foreign_rows,
    own_rows,
    strays,
    suspects,
)
from cutwater.core.driver.tombstone_gc import is_garbage
from cutwater.core.errors import ForeignRowsError, LostRecordsError, UnavailableError, UsageError
from cutwater.core.job.job import PLAIN_KEY_SCHEMA
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer, signed
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import LogEnd, evidence_of, lost_records
from cutwater.core.protocol.records import Barrier, Milestone


class ProvedRows:
    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self._consumer = make_consumer(cluster, **{"isolation.level": "read_uncommitted", **QUIET})
        self._witness = LogCheck(cluster)
        self._places = [TopicPartition(topic, number) for number in range(partitions)]
        self._begun = LogState({}, {})
        """The logs at the start of the epoch."""
        self.parent: Milestone | None = None
        """What a claimed generation continues. Before its first barrier, that milestone has the evidence."""

    def ends(self) -> dict[int, int]:
        return _ends(self._log_ends())

    def begin_epoch(self, before: Barrier | None, source_cut: Cut) -> None:
        """Raise LostRecordsError if records below the previous barrier's cuts, or this epoch's, are lost; before
        the first barrier, if events that the parent counts are. Raise LeadersChangedError if the source has other
        leaders than at the last call."""
        earlier = self._begun
        self._begun = self._witness.read_state([*self._places, *(place for place, _ in source_cut)])
        if before:
            self._require_kept(before, self._begun)
        elif parent := self.parent:
            self._witness.require(parent.evidence, parent.source_cut, f"milestone {parent.token}")
        if short := lost_records(source_cut, {place: one.end for place, one in self._begun.standings.items()}):
            raise LostRecordsError(f"the source topic, of which this epoch has read more: {'; '.join(short)}")
        # The executors' consumers keep what they have fetched ahead. Another query has consumers of its own.
        if changed := self._begun.changes_since(earlier, (place for place, _ in source_cut)):
            raise LeadersChangedError("; ".join(changed))

    def prove(self, before: Barrier | None, me: Writer, written: Written, buried: Mapping[int, int]) -> Proved:
        """Return the cut after this epoch, if only its rows and `buried` tombstones were added.

        Raise ForeignRowsError naming the foreign records: the generation has ended. Raise UnavailableError if rows
        were computed twice and differ: the next attempt writes the epoch again.
        """
        now, begun = self._log_ends(), self._begun.standings
        ends = _ends(now)
        led = [one.partition for one in self._places if now[one].leader_epoch != begun[one].leader_epoch]
        if led and before:
            self._require_kept(before, self._look_at(before))
        added = {number: rows + buried.get(number, 0) for number, rows in written.rows.items()}
        for suspect in suspects(_baseline(before), ends, added, led):
            records = list(self._without_garbage(suspect, me.generation, before))
            self._refuse(
                foreign_rows(records, me, written.rows[suspect.partition]), f"at the barrier of epoch {me.epoch}"
            )
            self._require_counted(suspect.partition, own_rows(records, me), written)
        cut = Cut.of_topic(self.topic, (ends[number] for number in range(self.partitions)))
        return Proved(cut, evidence_of(self._begun.identities, {**begun, **now}))

    def read_append_time(self, cut: Cut, written: Written) -> tuple[str, int] | None:
        """Return partition and append time of the epoch's last record in one partition; None for create times."""
        number = next(number for number, rows in written.rows.items() if rows)
        end = cut.offset(TopicPartition(self.topic, number))
        first = max(0, end - written.rows[number])
        for message in read_range(self._consumer, self.topic, number, first, end):
            kind, time_ms = message.timestamp()
            return (f"{self.topic}/{number}", time_ms) if kind == TIMESTAMP_LOG_APPEND_TIME else None
        return None

    def check_start(self, before: Barrier | None, generation: Generation, next_epoch: int, attempt: int) -> None:
        """Raise ForeignRowsError if a record above the newest barrier is not of the epoch about to run."""
        for suspect in suspects(_baseline(before), self._kept_ends(before), {}):
            records = self._without_garbage(suspect, generation, before)
            self._refuse(strays(records, generation, next_epoch, attempt), "at the start")

    def check_idle(self, barrier: Barrier) -> None:
        """Raise ForeignRowsError if anything was added since the newest barrier."""
        for suspect in suspects(_baseline(barrier), self._kept_ends(barrier), {}):
            self._refuse(list(self._without_garbage(suspect, barrier.generation, barrier)), "at a heartbeat")

    def has_grown(self, before: Barrier | None) -> bool:
        """Return whether there are records above the barrier."""
        return bool(suspects(_baseline(before), self.ends(), {}))

    def records(self, partition: int, first: int, end: int) -> Iterator[ChangelogRow]:
        """Yield one partition's records from `first` up to `end`, with tombstones."""
        for message in read_range(self._consumer, self.topic, partition, first, end):
            key, writer = message.key(), Writer.of_header(headers_of(message).get(WRITER_HEADER))
            yield ChangelogRow(partition, message.offset(), key, message.value(), writer, _window_end_ms(key))

    def _without_garbage(
        self, suspect: Suspect, generation: Generation, before: Barrier | None
    ) -> Iterator[ChangelogRow]:
        """Yield the records without garbage: a tombstone below the horizon changes nothing, from any attempt."""
        horizon_ms = before.horizon_ms if before else 0
        for record in self.records(suspect.partition, suspect.first, suspect.end):
            if not is_garbage(record, generation, horizon_ms):
                yield record

    def _log_ends(self) -> dict[TopicPartition, LogEnd]:
        return self._witness.ends.ends_with_epochs(self._places)

    def _look_at(self, barrier: Barrier) -> LogState:
        return self._witness.read_state([*self._places, *(place for place, _ in barrier.source_cut)])

    def _kept_ends(self, barrier: Barrier | None) -> dict[int, int]:
        """Return the next offset of each partition. Raise LostRecordsError for losses below the barrier."""
        if barrier is None:
            return self.ends()
        look = self._look_at(barrier)
        self._require_kept(barrier, look)
        return {place.partition: look.standings[place].end for place in self._places}

    def _require_kept(self, barrier: Barrier, look: LogState) -> None:
        cuts = barrier.source_cut.and_(barrier.changelog_cut)
        self._witness.require(barrier.evidence, cuts, f"barrier {barrier.epoch} of {barrier.generation}", look)

    def _require_counted(self, partition: int, own: Mapping[bytes, ChangelogRow], written: Written) -> None:
        """Raise UnavailableError if the rows are not the counted ones: no reader could prove the milestone.

        A task that runs twice may compute a sum with another last bit: one row is counted, the other may be last
        on the changelog.
        """
        digest = signed(rows_hash(own, [row.value or b"" for row in own.values()]))
        if digest != written.digests.get(partition, 0):
            raise UnavailableError(
                f"{self.topic}/{partition} holds other rows of this epoch than the counted ones: a task "
                "ran twice with different results. The next attempt writes the epoch again"
            )

    def _refuse(self, foreign: list[ChangelogRow], when: str) -> None:
        if foreign:
            raise ForeignRowsError(
                f"{when}, {self.topic} holds {len(foreign)} record(s) that this driver did not write: "
                f"{describe(foreign, self.topic)}. Another driver or a zombie executor writes to this generation. "
                "Stop it, and start a new generation from the last milestone; no reader has seen a foreign row."
            )


def _ends(standings: Mapping[TopicPartition, LogEnd]) -> dict[int, int]:
    return {place.partition: one.end for place, one in standings.items()}


_KEYS = Codec(PLAIN_KEY_SCHEMA)


def _window_end_ms(key: bytes | None) -> int | None:
    try:
        return int(_KEYS.decode(key or b"")["window_end"])
    except UsageError:
        return None


def _baseline(barrier: Barrier | None) -> dict[int, int]:
    return {place.partition: offset for place, offset in barrier.changelog_cut} if barrier else {}
