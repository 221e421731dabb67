"""The proof of rows over Kafka: reads what stands on the changelog. `core.driver.row_proof` decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.hashing import rows_hash
from cutwater.adapters.kafka.client import headers_of, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.adapters.topics.log_evidence import Look, Witness
from cutwater.core.driver.ports import Proved
from cutwater.core.driver.row_proof import (
    WRITER_HEADER,
    ChangelogRow,
    Suspect,
    Writer,
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
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import Standing, evidence_of, lost
from cutwater.core.protocol.records import Barrier
from cutwater.core.protocol.row_digest import signed


class ProvedRows:
    """One generation's changelog topic, as the driver checks it."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self._consumer = make_consumer(cluster, **{"isolation.level": "read_uncommitted", **QUIET})
        self._witness = Witness(cluster)
        self._places = [TopicPartition(topic, number) for number in range(partitions)]
        self._begun = Look({}, {})
        """As it stood when the epoch began."""

    def ends(self) -> dict[int, int]:
        """The next offset of each partition."""
        return _ends(self._standings())

    def begin(self, before: Barrier | None, source_cut: Cut) -> None:
        """Raises LostRecordsError for what is lost below the cuts of the barrier before, or this epoch's own."""
        self._begun = self._witness.look([*self._places, *(place for place, _ in source_cut)])
        if before:
            self._require_kept(before, self._begun)
        if short := lost(source_cut, {place: one.end for place, one in self._begun.standings.items()}):
            raise LostRecordsError(
                f"the source that is read: {'; '.join(short)}. Start a new generation from the last milestone"
            )

    def prove(self, before: Barrier | None, me: Writer, written: Written, buried: Mapping[int, int]) -> Proved:
        """The cut after this epoch, once it is sure that only its rows and `buried` tombstones were added.

        Raises ForeignRowsError naming the foreign records: the generation has ended. UnavailableError where rows
        were computed twice, differently: the next attempt writes the epoch again.
        """
        now, begun = self._standings(), self._begun.standings
        ends = _ends(now)
        led = [one.partition for one in self._places if now[one].leader_epoch != begun[one].leader_epoch]
        if led and before:
            self._require_kept(before, self._looked(before))
        added = {number: rows + buried.get(number, 0) for number, rows in written.rows.items()}
        for suspect in suspects(_baseline(before), ends, added, led):
            records = list(self._living(suspect, me.generation, before))
            self._refuse(
                foreign_rows(records, me, written.rows[suspect.partition]), f"at the barrier of epoch {me.epoch}"
            )
            self._require_counted(suspect.partition, own_rows(records, me), written)
        cut = Cut.of_topic(self.topic, (ends[number] for number in range(self.partitions)))
        return Proved(cut, evidence_of(self._begun.identities, {**begun, **now}))

    def appended(self, cut: Cut, written: Written) -> tuple[str, int] | None:
        """Of the last record of one partition that has rows of this epoch; None where producers date them."""
        number = next(number for number, rows in written.rows.items() if rows)
        end = cut.offset(TopicPartition(self.topic, number))
        first = max(0, end - written.rows[number])
        for message in read_range(self._consumer, self.topic, number, first, end):
            kind, time_ms = message.timestamp()
            return (f"{self.topic}/{number}", time_ms) if kind == TIMESTAMP_LOG_APPEND_TIME else None
        return None

    def check_start(self, before: Barrier | None, generation: Generation, next_epoch: int, attempt: int) -> None:
        """Raise ForeignRowsError when records above the newest barrier are not of the epoch about to run."""
        for suspect in suspects(_baseline(before), self._kept_ends(before), {}):
            records = self._living(suspect, generation, before)
            self._refuse(strays(records, generation, next_epoch, attempt), "at the start")

    def check_idle(self, barrier: Barrier) -> None:
        """Raise ForeignRowsError when anything was added since the newest barrier."""
        for suspect in suspects(_baseline(barrier), self._kept_ends(barrier), {}):
            self._refuse(list(self._living(suspect, barrier.generation, barrier)), "at a heartbeat")

    def grown(self, before: Barrier | None) -> bool:
        """Does anything stand above the barrier?"""
        return bool(suspects(_baseline(before), self.ends(), {}))

    def records(self, partition: int, first: int, end: int) -> Iterator[ChangelogRow]:
        """What one partition holds from `first` up to `end`, tombstones included."""
        for message in read_range(self._consumer, self.topic, partition, first, end):
            key, writer = message.key(), Writer.of_header(headers_of(message).get(WRITER_HEADER))
            yield ChangelogRow(partition, message.offset(), key, message.value(), writer, _window_end_ms(key))

    def _living(self, suspect: Suspect, generation: Generation, before: Barrier | None) -> Iterator[ChangelogRow]:
        """The records but garbage: a tombstone below the horizon changes nothing, whichever attempt wrote it."""
        horizon_ms = before.horizon_ms if before else 0
        for record in self.records(suspect.partition, suspect.first, suspect.end):
            if not is_garbage(record, generation, horizon_ms):
                yield record

    def _standings(self) -> dict[TopicPartition, Standing]:
        return self._witness.ends.standing(self._places)

    def _looked(self, barrier: Barrier) -> Look:
        return self._witness.look([*self._places, *(place for place, _ in barrier.source_cut)])

    def _kept_ends(self, barrier: Barrier | None) -> dict[int, int]:
        """The next offset of each partition, once it is sure that nothing is lost below the barrier."""
        if barrier is None:
            return self.ends()
        look = self._looked(barrier)
        self._require_kept(barrier, look)
        return {place.partition: look.standings[place].end for place in self._places}

    def _require_kept(self, barrier: Barrier, look: Look) -> None:
        cuts = barrier.source_cut.and_(barrier.changelog_cut)
        self._witness.require(barrier.evidence, cuts, f"barrier {barrier.epoch} of {barrier.generation}", look)

    def _require_counted(self, partition: int, own: Mapping[bytes, ChangelogRow], written: Written) -> None:
        """A task that runs twice may compute a row differently, in the last bit of a sum: one was counted, and the
        other may be the last one here. No reader could ever prove that milestone."""
        digest = signed(rows_hash(own, [row.value or b"" for row in own.values()]))
        if digest != written.digests.get(partition, 0):
            raise UnavailableError(
                f"{self.topic}/{partition} holds other rows of this epoch than those that were counted: a task "
                "ran twice and computed them differently. The next attempt writes the epoch again"
            )

    def _refuse(self, foreign: list[ChangelogRow], when: str) -> None:
        if foreign:
            raise ForeignRowsError(
                f"{when}, {self.topic} holds {len(foreign)} record(s) that this driver did not write: "
                f"{describe(foreign, self.topic)}. Another driver or a zombie executor writes to this generation. "
                "Stop it, and start a new generation from the last milestone; nothing foreign has been shown."
            )


def _ends(standings: Mapping[TopicPartition, Standing]) -> dict[int, int]:
    return {place.partition: one.end for place, one in standings.items()}


_KEYS = Codec(PLAIN_KEY_SCHEMA)


def _window_end_ms(key: bytes | None) -> int | None:
    try:
        return int(_KEYS.decode(key or b"")["window_end"])
    except UsageError:
        return None


def _baseline(barrier: Barrier | None) -> dict[int, int]:
    """Where the changelog ended at a barrier, by partition."""
    return {place.partition: offset for place, offset in barrier.changelog_cut} if barrier else {}
